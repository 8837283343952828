// Tables, guarded arrays and inputs for tests of CPU kernels. Knows the CPU kernel and its tables.
#include "tests/support/kernel_runner.hpp"

#include <algorithm>
#include <cstring>
#include <random>

#include <fmt/format.h>

#include "compiler/llvm/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "ir/interpreter.hpp"
#include "ir/narrow.hpp"
#include "ir/reduction.hpp"
#include "runtime/partitions.hpp"

namespace stepfuse {
namespace {

constexpr unsigned char kGuard = 0xA5;
constexpr size_t kGuardBytes = 256;

std::vector<Signature> distinct_signatures(const StepData& data) {
  std::vector<Signature> result;
  for (const StepTensor& t : data.tensors) {
    if (std::find(result.begin(), result.end(), t.dtypes) == result.end()) {
      result.push_back(t.dtypes);
    }
  }
  return result;
}

struct Tables {
  std::vector<abi::Chunk> chunks;
  std::vector<abi::Tensor> tensors;
  std::vector<void*> pointers;
  uint64_t scratch_elements = 0;
};

float random_float(std::mt19937_64& random, bool special) {
  std::normal_distribution<float> normal;
  if (!special || random() % 4 != 0) return normal(random);
  static const float kValues[] = {0.0F,
                                  -0.0F,
                                  std::numeric_limits<float>::infinity(),
                                  -std::numeric_limits<float>::infinity(),
                                  std::numeric_limits<float>::quiet_NaN(),
                                  1e-45F,
                                  -3e-41F,
                                  3e38F,
                                  -3e38F,
                                  6.1e-5F,
                                  5.9e-8F,
                                  65504.0F,
                                  65520.0F,
                                  1.5F,
                                  2147483648.0F,
                                  -2147483648.0F,
                                  1e10F};
  return kValues[random() % std::size(kValues)];
}

Bits random_bits(std::mt19937_64& random, DType t, bool special) {
  if (is_low_precision(t)) return {narrow(random_float(random, special), t)};
  switch (t) {
    case DType::boolean:
      return Bits::of(random() % 2 == 0);
    case DType::i32: {
      static const int32_t kValues[] = {0, -1, 1, INT32_MAX, INT32_MIN};
      if (special && random() % 4 == 0) return Bits::of(kValues[random() % 5]);
      return Bits::of(static_cast<int32_t>(random() % 2001) - 1000);
    }
    case DType::i64: {
      static const int64_t kValues[] = {0, -1, 1, INT64_MAX, INT64_MIN};
      if (special && random() % 4 == 0) return Bits::of(kValues[random() % 5]);
      return Bits::of(static_cast<int64_t>(random() % 2001) - 1000);
    }
    case DType::f32:
      return Bits::of(random_float(random, special));
    default:
      return Bits::of(static_cast<double>(random_float(random, special)));
  }
}

}  // namespace

KernelRunner::KernelRunner(const Program& program, const StepData& data,
                           const RunnerOptions& options) {
  std::vector<Signature> signatures = distinct_signatures(data);
  Program p = options.optimize ? optimize(program, signatures) : program;
  variant_ = make_variant(p, signatures, options.form);
  CpuTarget target = cpu_target(options.level);
  text_ = emit_llvm(variant_.plan, target);
  object_ = compile_cpu(text_, target);
  kernel_ = CpuKernel::load(object_.bytes, variant_.plan);
}

KernelRunner::KernelRunner(Variant variant, std::string text, const CpuTarget& target)
    : variant_(std::move(variant)), text_(std::move(text)) {
  object_ = compile_cpu(text_, target);
  kernel_ = CpuKernel::load(object_.bytes, variant_.plan);
}

void KernelRunner::run(StepData& data, const CpuExecutor& executor) const {
  run_on_tables(variant_, data,
                [&](const abi::Context& context) { kernel_->run(context, executor); });
}

void run_on_tables(const Variant& variant, StepData& data,
                   const std::function<void(const abi::Context&)>& run) {
  const Program& p = variant.program;
  auto signature_of = [&](const StepTensor& tensor) {
    auto it = std::find(variant.signatures.begin(), variant.signatures.end(), tensor.dtypes);
    return static_cast<uint32_t>(it - variant.signatures.begin());
  };
  Tables tables;
  for (size_t t = 0; t < data.tensors.size(); ++t) {
    const StepTensor& tensor = data.tensors[t];
    tables.tensors.push_back({static_cast<uint32_t>(tensor.group),
                              tensor.present ? abi::kPresent : 0U, tensor.size, tensor.offset,
                              tables.scratch_elements});
    tables.scratch_elements += (tensor.size + 63) / 64 * 64;
    tables.pointers.insert(tables.pointers.end(), tensor.data.begin(), tensor.data.end());
    for (uint64_t begin = 0; begin < tensor.size;) {
      uint64_t to_border = kPieceElements - (tensor.offset + begin) % kPieceElements;
      uint64_t length = std::min(to_border, tensor.size - begin);
      tables.chunks.push_back({static_cast<uint32_t>(t), signature_of(tensor),
                               static_cast<uint32_t>(length), 0, begin});
      begin += length;
    }
  }
  auto members = [&](Domain d) {
    return d == Domain::step    ? size_t{1}
           : d == Domain::group ? static_cast<size_t>(data.group_count)
                                : data.tensors.size();
  };
  ArgLayout layout(p.args);
  std::vector<uint64_t> args(layout.words(static_cast<size_t>(data.group_count)) + 1);
  for (size_t a = 0; a < p.args.size(); ++a) {
    for (size_t g = 0; g < data.args[a].size(); ++g) args[layout.word(a, g)] = data.args[a][g].raw;
  }
  struct alignas(64) Line {
    uint64_t words[8];
  };
  using Memory = std::vector<std::vector<Line>>;
  // Filled with nonsense: everything must be written before it is read.
  auto add = [](Memory& memory, size_t bytes) -> std::vector<Line>& {
    constexpr uint64_t kNonsense = 0x7fc1234598765432;
    Line line;
    std::fill(std::begin(line.words), std::end(line.words), kNonsense);
    return memory.emplace_back(bytes / sizeof(Line) + 1, line);
  };
  Memory states;
  Memory slots;
  Memory results;
  Memory scratch;
  auto pointers_to = [](Memory& memory) {
    std::vector<void*> result;
    for (auto& m : memory) result.push_back(m.data());
    return result;
  };
  for (size_t s = 0; s < p.states.size(); ++s) {
    DType d = p.states[s].type.dtype;
    auto& memory = add(states, data.states[s].size() * 8);
    for (size_t i = 0; i < data.states[s].size(); ++i) {
      store_bits(reinterpret_cast<char*>(memory.data()) + i * size_of(d), d, data.states[s][i]);
    }
  }
  for (const plan::Reduction& r : variant.plan.reductions) {
    add(slots, (r.from == Domain::element ? tables.chunks.size() : members(r.from)) * 8);
    add(results, members(r.to) * 8);
  }
  for (size_t i = 0; i < variant.plan.scratch_count(); ++i) {
    add(scratch, tables.scratch_elements * 4);
  }
  std::vector<uint64_t> scalars(p.insts.size() + 1);
  std::vector<void*> state_pointers = pointers_to(states);
  std::vector<void*> slot_pointers = pointers_to(slots);
  std::vector<void*> result_pointers = pointers_to(results);
  std::vector<void*> scratch_pointers = pointers_to(scratch);
  abi::Context context{};
  context.chunks = tables.chunks.data();
  context.tensors = tables.tensors.data();
  context.pointers = tables.pointers.data();
  context.step_args = args.data();
  context.group_args = args.data() + layout.step_words;
  context.states = state_pointers.data();
  context.slots = slot_pointers.data();
  context.results = result_pointers.data();
  context.scalars = scalars.data();
  context.scratch = scratch_pointers.data();
  context.chunk_count = static_cast<uint32_t>(tables.chunks.size());
  context.tensor_count = static_cast<uint32_t>(tables.tensors.size());
  context.group_count = static_cast<uint32_t>(data.group_count);
  Partitions parts(tables.chunks, tables.tensors, context.group_count);
  parts.describe(&context);
  run(context);
  for (size_t s = 0; s < p.states.size(); ++s) {
    DType d = p.states[s].type.dtype;
    for (size_t i = 0; i < data.states[s].size(); ++i) {
      data.states[s][i] = load_bits(reinterpret_cast<char*>(states[s].data()) + i * size_of(d), d);
    }
  }
}

OwnedData::OwnedData(const Program& program, int groups) {
  data.group_count = groups;
  for (const Arg& a : program.args) {
    data.args.emplace_back(a.type.domain == Domain::group ? static_cast<size_t>(groups) : 1);
  }
  for (const State& s : program.states) {
    data.states.emplace_back(s.type.domain == Domain::step    ? 1
                             : s.type.domain == Domain::group ? static_cast<size_t>(groups)
                                                              : 0);
  }
}

OwnedData::OwnedData(const OwnedData& other) : data(other.data), arrays_(other.arrays_) {
  // A vector's copy may lie at another alignment: place the contents anew.
  for (size_t t = 0; t < arrays_.size(); ++t) {
    for (size_t b = 0; b < arrays_[t].size(); ++b) {
      const Array& from = other.arrays_[t][b];
      size_t misalign = reinterpret_cast<uintptr_t>(from.begin()) % 64;
      place(arrays_[t][b], from.size, misalign);
      std::copy(from.begin(), from.begin() + from.size, arrays_[t][b].begin());
    }
  }
  point();
}

void OwnedData::place(Array& array, size_t size, size_t misalign_bytes) {
  array.bytes.assign(size + 2 * kGuardBytes + 128, kGuard);
  auto base = reinterpret_cast<uintptr_t>(array.bytes.data()) + kGuardBytes;
  size_t to_border = (64 - base % 64) % 64;
  array.offset = kGuardBytes + to_border + misalign_bytes % 64;
  array.size = size;
}

void OwnedData::point() {
  for (size_t t = 0; t < arrays_.size(); ++t) {
    for (size_t b = 0; b < arrays_[t].size(); ++b) data.tensors[t].data[b] = arrays_[t][b].begin();
  }
}

void OwnedData::add_tensor(const Program& program, uint64_t size, int group, bool present,
                           const std::vector<DType>& dtypes, int misalign) {
  StepTensor tensor{.size = size, .group = group, .present = present, .dtypes = dtypes};
  std::vector<Array> arrays(program.buffers.size());
  for (size_t b = 0; b < arrays.size(); ++b) {
    size_t bytes = size_of(dtypes[b]);
    place(arrays[b], size * bytes, static_cast<size_t>(misalign) * bytes);
  }
  tensor.data.resize(arrays.size());
  arrays_.push_back(std::move(arrays));
  data.tensors.push_back(std::move(tensor));
  for (size_t s = 0; s < program.states.size(); ++s) {
    if (program.states[s].type.domain == Domain::tensor) data.states[s].emplace_back();
  }
  point();
}

void OwnedData::fill(const Program& program, uint64_t seed, bool special) {
  std::mt19937_64 random(seed);
  for (size_t t = 0; t < arrays_.size(); ++t) {
    for (size_t b = 0; b < arrays_[t].size(); ++b) {
      DType d = data.tensors[t].dtypes[b];
      for (uint64_t i = 0; i < data.tensors[t].size; ++i) {
        store_bits(arrays_[t][b].begin() + i * size_of(d), d, random_bits(random, d, special));
      }
    }
  }
  for (size_t s = 0; s < data.states.size(); ++s) {
    for (Bits& v : data.states[s]) v = random_bits(random, program.states[s].type.dtype, special);
  }
  for (size_t a = 0; a < data.args.size(); ++a) {
    for (Bits& v : data.args[a]) v = random_bits(random, program.args[a].type.dtype, special);
  }
}

std::string OwnedData::difference(const Program& program, const OwnedData& other) const {
  for (size_t t = 0; t < arrays_.size(); ++t) {
    for (size_t b = 0; b < arrays_[t].size(); ++b) {
      DType d = data.tensors[t].dtypes[b];
      for (uint64_t i = 0; i < data.tensors[t].size; ++i) {
        Bits mine = canonical_nan(load_bits(arrays_[t][b].begin() + i * size_of(d), d), d);
        Bits theirs = canonical_nan(load_bits(other.arrays_[t][b].begin() + i * size_of(d), d), d);
        if (mine == theirs) continue;
        return fmt::format("tensor {} @{}[{}]: {} ({:#x}) and {} ({:#x})", t,
                           program.buffers[b].name, i, literal_text(mine, d), mine.raw,
                           literal_text(theirs, d), theirs.raw);
      }
    }
  }
  for (size_t s = 0; s < data.states.size(); ++s) {
    DType d = program.states[s].type.dtype;
    for (size_t i = 0; i < data.states[s].size(); ++i) {
      Bits mine = canonical_nan(data.states[s][i], d);
      Bits theirs = canonical_nan(other.data.states[s][i], d);
      if (mine == theirs) continue;
      return fmt::format("state @{}[{}]: {} and {}", program.states[s].name, i,
                         literal_text(mine, d), literal_text(theirs, d));
    }
  }
  return "";
}

bool OwnedData::guards_hold() const {
  for (const auto& tensor : arrays_) {
    for (const Array& a : tensor) {
      auto is_guard = [](unsigned char c) { return c == kGuard; };
      const unsigned char* first = a.bytes.data();
      const unsigned char* last = first + a.bytes.size();
      if (!std::all_of(first, a.begin(), is_guard)) return false;
      if (!std::all_of(a.begin() + a.size, last, is_guard)) return false;
    }
  }
  return true;
}

void run_interpreter(const Program& program, OwnedData& data) { interpret(program, data.data); }

std::string compare_with_interpreter(const Program& program, const OwnedData& input,
                                     const RunnerOptions& options, int threads) {
  OwnedData expected(input);
  interpret(program, expected.data);
  OwnedData actual(input);
  KernelRunner runner(program, actual.data, options);
  runner.run(actual.data, CpuExecutor(threads));
  if (!actual.guards_hold()) return "wrote outside an array";
  std::string difference = actual.difference(program, expected);
  return difference.empty() ? "" : "kernel and interpreter differ: " + difference;
}

}  // namespace stepfuse
