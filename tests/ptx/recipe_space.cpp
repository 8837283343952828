// Programs, layouts and data of recipes. Knows the recipe options by their table.
#include "tests/ptx/recipe_space.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <stepfuse/error.hpp>
#include <stepfuse/recipes.hpp>

#include "compiler/cuda/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "ir/semantics/interpreter.hpp"
#include "ir/semantics/reduction.hpp"
#include "ir/semantics/semantics.hpp"
#include "tests/support/covering_file.hpp"
#include "tests/support/rng.hpp"

namespace stepfuse::testing {
namespace {

std::vector<DType> grad_types(const Point& point) {
  std::vector<DType> types;
  std::string rest = point.at("grad");
  while (!rest.empty()) {
    size_t end = std::min(rest.find('|'), rest.size());
    types.push_back(*dtype_from_name(rest.substr(0, end)));
    rest.erase(0, std::min(end + 1, rest.size()));
  }
  return types;
}

// Signatures of tensors with every buffer.
std::vector<Signature> types_of(const Program& program, const Point& point) {
  std::vector<Signature> signatures;
  for (DType grad : grad_types(point)) {
    Signature s;
    for (const Buffer& b : program.buffers) {
      s.push_back(b.name == "grad" ? grad : b.dtypes.only());
    }
    signatures.push_back(s);
  }
  return signatures;
}

// Signatures of tensors of every class.
std::vector<Signature> signatures_of(const Program& program, const Point& point) {
  std::vector<Signature> signatures;
  for (uint64_t elements : tensor_classes(program)) {
    for (const Signature& s : types_of(program, point)) {
      signatures.push_back(of_size(program, elements, s));
    }
  }
  return signatures;
}

std::vector<uint64_t> sizes_of(const std::string& layout, Rng& rng) {
  if (layout == "tiny") {
    std::vector<uint64_t> sizes;
    for (int k = 0; k < 37; ++k) sizes.push_back(rng.below(10));
    return sizes;
  }
  if (layout == "large") return {3 * kPieceElements + 5, kPieceElements};
  if (layout == "single") return {1};
  if (layout == "none") return {};
  return {257, 0, 4100, 3, kPieceElements + 1, 248, 249, 31};
}

TestLayout layout_of(const Program& program, const Point& point, uint64_t seed) {
  const std::string& kind = point.at("layout");
  Rng rng(seed, "layout");
  TestLayout layout;
  layout.signatures = types_of(program, point);
  bool has_blocks =
      std::any_of(program.buffers.begin(), program.buffers.end(),
                  [](const Buffer& b) { return block_of(b.at) > 1 && !needs_rows(b.at); });
  layout.group_count = 3;  // the last one has one tensor
  for (uint64_t size : sizes_of(kind, rng)) {
    LayoutTensor t{.size = size};
    t.group = rng.between(0, 1);
    t.present = kind != "absent" || rng.chance(60);
    t.signature = static_cast<int32_t>(layout.tensors.size() % layout.signatures.size());
    if (kind == "misaligned" || kind == "tiny") t.shift = rng.below(32);
    if (kind == "shards") t.offset = rng.below(3 * kPieceElements);
    t.columns = rng.chance(50) ? 0 : 1 + rng.below(300);
    if (has_rows(program)) {
      t.columns = rng.chance(30) ? 0 : 1 + rng.below(300);
      if (has_blocks) t.columns = t.columns / 64 * kLargestBlock;
      std::vector<Granularity> used = granularities_of(program);
      bool columns = std::find(used.begin(), used.end(), per::column) != used.end();
      auto rows = static_cast<uint64_t>(std::max(1, rows_in_order(program)));
      t.offset = columns ? 0 : t.columns * rows * rng.below(9);
      if (t.columns != 0) t.size -= t.size % t.columns;
    }
    // Shards start at blocks. The API asks for more of other shards, but the kernels do not.
    if (has_blocks) t.offset -= has_rows(program) ? t.offset : t.offset % kPieceElements;
    fit_orders(program, &t, seed + layout.tensors.size());
    layout.tensors.push_back(t);
  }
  if (!layout.tensors.empty()) layout.tensors[rng.below(layout.tensors.size())].group = 2;
  layout.fit_sizes(program);
  return layout;
}

Bits as(double value, DType t) {
  if (is_integer(t))
    return t == DType::i32 ? Bits::of(static_cast<int32_t>(value))
                           : Bits::of(static_cast<int64_t>(value));
  if (t == DType::boolean) return Bits::of(value != 0);
  return t == DType::f64 ? Bits::of(value)
                         : sem::cast(Bits::of(static_cast<float>(value)), DType::f32, t);
}

double number(Bits bits, DType t) {
  if (t == DType::f64) return std::bit_cast<double>(bits.raw);
  if (t == DType::i64) return static_cast<double>(static_cast<int64_t>(bits.raw));
  if (t == DType::i32) return static_cast<double>(static_cast<int32_t>(bits.raw));
  return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits.raw)));
}

// The usual values, different in each group.
void set_args(const Program& program, StepData& step) {
  for (size_t a = 0; a < program.args.size(); ++a) {
    const Arg& arg = program.args[a];
    DType t = arg.type.dtype;
    for (size_t i = 0; i < step.args[a].size(); ++i) {
      double plain = arg.fallback ? number(*arg.fallback, t) : 1.0;
      // Below most norms, so that clipping acts.
      if (arg.name == "max_norm") {
        step.args[a][i] = as(0x1p-7, t);
        continue;
      }
      step.args[a][i] = i == 0 && arg.fallback
                            ? *arg.fallback
                            : as(plain * (1 - 0.125 * static_cast<double>(i)), t);
    }
  }
}

// States shortly before the scaler's events, so that some steps reach them.
void set_states(const Program& program, StepData& step, Rng& rng) {
  for (size_t s = 0; s < program.states.size(); ++s) {
    const State& state = program.states[s];
    for (Bits& v : step.states[s]) {
      v = state.initial;
      if (state.name == "step") v = as(rng.between(0, 6), state.type.dtype);
      if (state.name == "growth_tracker") v = as(rng.between(1997, 1999), state.type.dtype);
    }
  }
}

void set_inputs(const Program& program, const Point& point, TestData& data, Rng& rng) {
  const std::string& kind = point.at("inputs");
  // One non-finite gradient in the whole step: a lane that drops a value drops this one.
  std::vector<size_t> candidates;
  for (size_t t = 0; t < data.step().tensors.size(); ++t) {
    const StepTensor& tensor = data.step().tensors[t];
    if (tensor.size != 0 && tensor.present) candidates.push_back(t);
  }
  bool one = kind == "one" && !candidates.empty();
  size_t the_one = one ? candidates[rng.below(candidates.size())] : data.step().tensors.size();
  for (size_t t = 0; t < data.step().tensors.size(); ++t) {
    StepTensor& tensor = data.step().tensors[t];
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      const std::string& name = program.buffers[b].name;
      DType type = tensor.dtypes[b];
      auto* at = static_cast<std::byte*>(tensor.data[b]);
      bool squares = name.find("sq") != std::string::npos || name == "sum" || name == "square_avg";
      uint64_t count =
          is_float(type) ? program.buffers[b].count(tensor.size, tensor.column_count()) : 0;
      for (uint64_t i = 0; i < count; ++i) {
        std::byte* place = at + i * size_of(type);
        double v = number(sem::cast(load_bits(place, type), type, DType::f32), DType::f32);
        if (squares) store_bits(place, type, as(std::fabs(v), type));
        if (name == "grad" && kind == "overflow") store_bits(place, type, as(v * 1e36, type));
        if (name == "grad" && kind == "tiny") store_bits(place, type, as(v * 1e-7, type));
      }
      bool bad = name == "grad" && kind == "nonfinite" && tensor.size != 0 && rng.chance(40);
      bad = bad || (name == "grad" && t == the_one);
      if (bad)
        store_bits(at + rng.below(tensor.size) * size_of(type), type,
                   as(rng.chance(50) ? NAN : -INFINITY, type));
    }
  }
}

}  // namespace

std::vector<Factor> recipe_factors() {
  std::vector<Factor> factors = recipe_option_factors();
  factors.push_back({"mode", {"fused", "split", "unfused", "observe"}});
  factors.push_back(
      {"layout", {"mixed", "tiny", "misaligned", "absent", "shards", "large", "single", "none"}});
  factors.push_back({"inputs", {"normal", "nonfinite", "overflow", "tiny", "special", "one"}});
  factors.push_back({"args", {"table", "inline"}});
  factors.push_back({"arch", {"90", "75", "80", "100", "120"}});
  factors.push_back({"blocks", {"2", "1", "7", "132"}});
  factors.push_back({"split", {"0", "3", "1"}});
  factors.push_back({"unroll", {"1", "2"}});
  factors.push_back({"cache", {"normal", "streaming", "evict-first"}});
  factors.push_back({"access", {"128", "256"}});
  factors.push_back({"reverse", {"on", "off"}});
  return factors;
}

CudaOptions options_of(const Point& point) {
  CudaOptions options{.arch = std::stoi(point.at("arch"))};
  for (const char* name : {"unroll", "cache", "access", "reverse"}) {
    options = with_options(options, fmt::format("{}={}", name, point.at(name)));
  }
  check(options);
  return options;
}

size_t Covering::factor(std::string_view name) const {
  auto at = std::find_if(factors.begin(), factors.end(), [&](auto& f) { return f.name == name; });
  return static_cast<size_t>(at - factors.begin());
}

namespace {

// Some tensors observed before the step, in any order, one of them twice; "observe" uses the split
// form.
std::vector<Observation> observations(const Point& point, size_t tensors, uint64_t seed) {
  std::vector<Observation> list;
  if (point.at("mode") != "observe" || tensors == 0) return list;
  Rng rng(seed, "observe");
  std::vector<size_t> order(tensors);
  std::iota(order.begin(), order.end(), 0);
  for (size_t k = tensors; k > 1; --k) std::swap(order[k - 1], order[rng.below(k)]);
  for (size_t t : order) {
    if (rng.chance(70)) list.push_back({t});
  }
  if (list.empty()) list.push_back({order[0]});
  Observation twice{list[rng.below(list.size())].tensor, true};
  list.insert(list.begin(), twice);
  return list;
}

Form form_of(const Point& point) {
  const std::string& mode = point.at("mode");
  return mode == "observe" ? Form::split : *form_from_name(mode);
}

}  // namespace

Covering covering_rows() {
  Covering covering{.factors = recipe_factors()};
  auto possible = [&](const Row& row) { return is_possible(covering.point(row)); };
  covering.set = kept_covering_set("ptx_recipes", covering.factors, possible, 1);
  return covering;
}

bool is_possible(const Point& point) {
  try {
    options_of(point);
    Variant variant = variant_of(program_of(point), point);
    return point.at("mode") != "observe" || variant.plan.phases.size() > 1;
  } catch (const Error&) {
    return false;
  }
}

Variant variant_of(const Program& program, const Point& point) {
  std::vector<Signature> signatures = signatures_of(program, point);
  return make_variant(optimize(program, signatures), signatures, form_of(point));
}

double compile_cost(const Point& point) {
  Variant variant = variant_of(program_of(point), point);
  return static_cast<double>(emit_cuda(variant.plan, options_of(point)).size());
}

RecipeCase recipe_case(const Point& point, uint64_t seed) {
  Program program = program_of(point);
  TestLayout layout = layout_of(program, point, seed);
  Inputs inputs = point.at("inputs") == "special" ? Inputs::special : Inputs::normal;
  RecipeCase c{program, layout, TestData(program, layout, seed, inputs)};
  Rng rng(seed, "recipe");
  set_args(c.program, c.data.step());
  set_states(c.program, c.data.step(), rng);
  set_inputs(c.program, point, c.data, rng);
  return c;
}

Verdict compare_on_machine(const Point& point, uint64_t data_seed,
                           const std::vector<uint64_t>& seeds, int steps) {
  RecipeCase c = recipe_case(point, data_seed);
  TestData before(c.data);
  for (int k = 0; k < steps; ++k) interpret(c.program, c.data.step());
  Variant variant = variant_of(c.program, point);
  CudaOptions options = options_of(point);
  std::string text = emit_cuda(variant.plan, options);
  DeviceRunner runner(std::move(variant), text, options.arch);
  Verdict verdict;
  for (uint64_t seed : seeds) {
    DeviceRun run{.blocks = static_cast<uint32_t>(std::stoul(point.at("blocks"))),
                  .split = static_cast<uint32_t>(std::stoul(point.at("split"))),
                  .seed = seed,
                  .incoherent = seed % 3 == 1,
                  .inline_args = point.at("args") == "inline",
                  .steps = steps,
                  .observed = observations(point, c.layout.tensors.size(), seed)};
    for (const LayoutTensor& t : c.layout.tensors) run.shifts.push_back(t.shift);
    TestData actual(before);
    try {
      auto counters = runner.run(actual.step(), run);
      verdict.counters.instructions += counters.instructions;
    } catch (const ptx::MachineError& e) {
      verdict.fault = fmt::format("interleaving {}: {}", seed, e.what());
      return verdict;
    }
    if (auto f = difference(c.program, c.data, actual)) {
      verdict.fault = fmt::format("interleaving {}: {}", seed, *f);
      return verdict;
    }
  }
  return verdict;
}

}  // namespace stepfuse::testing
