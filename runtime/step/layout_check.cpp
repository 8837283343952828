// Checks a layout against the program that runs over it. Knows the public API, the verifier and fmt.
#include "runtime/step/layout_check.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <stepfuse/printer.hpp>

#include "compiler/signature.hpp"
#include "ir/program/verifier.hpp"
#include "ir/semantics/random.hpp"
#include "ir/text/near_names.hpp"

namespace stepfuse {
namespace {

// Throws a message that starts with the tensor's index and name.
template <class... Args>
[[noreturn]] void refuse(const TensorSpec& spec, size_t index, fmt::format_string<Args...> format,
                         Args&&... args) {
  throw Error(ErrorKind::bind, fmt::format("tensor {} '{}' {}", index, spec.name.substr(0, 80),
                                           fmt::format(format, std::forward<Args>(args)...)));
}

bool has_flag(const Program& program, bool TensorSpec::* flag) {
  return std::any_of(program.states.begin(), program.states.end(),
                     [&](const State& s) { return tensor_flag(s) == flag; });
}

// Whether the program uses the number of elements of a tensor.
bool counts_elements(const Program& program) {
  return tensor_classes(program).size() > 1 ||
         std::any_of(program.insts.begin(), program.insts.end(), [](const Inst& inst) {
           return inst.op == Op::element_count || inst.op == Op::column_count;
         });
}

// Whether the program counts elements for which a condition holds. Such counts have 32 bits.
bool counts_true(const Program& program) {
  return std::any_of(program.insts.begin(), program.insts.end(), [&](const Inst& inst) {
    return inst.op == Op::reduce_add && inst.type.dtype == DType::i32 &&
           is_of_elements(program[inst.operands[0]].type.at);
  });
}

}  // namespace

bool TensorSpec::* tensor_flag(const State& state) {
  if (state.type != Type{DType::boolean, per::tensor}) return nullptr;
  if (state.name == "counted") return &TensorSpec::counted;
  return state.name == "updated" ? &TensorSpec::updated : nullptr;
}

void check_step(const Program& program, const StepOptions& options) {
  verify(program);
  if (options.stats_ring < 1 || options.stats_ring > 65536) {
    throw Error(ErrorKind::usage,
                fmt::format("StepOptions::stats_ring keeps 1 to 65,536 steps, not "
                            "{}",
                            options.stats_ring));
  }
  if (options.form > Form::unfused) {
    throw Error(ErrorKind::usage, "StepOptions::form is not fused, split or unfused");
  }
  int gradient = program.find_buffer(options.gradient);
  // Not every step has a buffer with the name that is the default.
  if (gradient < 0 && !options.gradient.empty() && options.gradient != StepOptions().gradient) {
    std::vector<std::string> names;
    for (const Buffer& b : program.buffers) names.push_back(b.name);
    throw Error(ErrorKind::usage,
                fmt::format("StepOptions::gradient: step @{} has no buffer @{}{}", program.name,
                            options.gradient, did_you_mean(options.gradient, names)));
  }
  if (gradient >= 0 && !program.buffers[static_cast<size_t>(gradient)].is_of_all()) {
    throw Error(ErrorKind::bind,
                fmt::format("@{} is the gradient, which tensors of every size have: leave out "
                            "`from` and `below`",
                            options.gradient));
  }
}

LayoutCheck::LayoutCheck(const Program& program)
    : program_(&program),
      can_exclude_(has_flag(program, &TensorSpec::counted)),
      can_freeze_(has_flag(program, &TensorSpec::updated)),
      counts_elements_(counts_elements(program)),
      counts_true_(counts_true(program)) {
  for (Granularity g : granularities_of(program)) {
    if (needs_rows(g) && g != per::row) matrix_.push_back({g});
  }
  if (has_rows(program)) matrix_.push_back({per::row});
}

void LayoutCheck::add(const Layout& layout) {
  for (size_t t = 0; t < layout.size(); ++t) add(layout.tensors()[t], t);
}

void LayoutCheck::add(const TensorSpec& spec, size_t index) {
  check_flags(spec, index);
  TensorShape shape = shape_of(spec.elements, spec.column_count());
  if (!matrix_.empty() && spec.elements != 0) check_blocks(spec, index);
  check_block_cut(spec, index);
  check_arranged(spec, index);
  for (const Counted& c : matrix_) {
    if (spec.elements != 0) check_whole(c.at, spec, index);
    uint64_t count = c.count + tile_count(c.at, shape);
    if (count >> 32 == 0) continue;
    throw Error(
        ErrorKind::bind,
        fmt::format(
            "step @{} has a value per {}, and the tensors up to {} have {} of them: there may be "
            "2^32 - 1",
            program_->name, granularity_name(c.at), index, count));
  }
  // Without the full size, the count of a shard's tensor would be wrong.
  if (counts_elements_ && spec.offset != 0 && spec.full_elements == 0) {
    refuse(spec, index,
           "is a shard, and step @{} needs the number of elements of its tensor: set full_elements",
           program_->name);
  }
  if (counts_true_ && spec.elements >> 32 != 0) {
    refuse(spec, index,
           "has {} elements, and step @{} counts those for which a condition holds: it may have "
           "2^32 - 1; cut it into shards",
           spec.elements, program_->name);
  }
  for (Counted& c : matrix_) c.count += tile_count(c.at, shape);
}

void LayoutCheck::check_flags(const TensorSpec& spec, size_t index) const {
  bool counted = spec.counted || can_exclude_;
  if (counted && (spec.updated || can_freeze_)) return;
  refuse(spec, index,
         "has {} = false, but step @{} has no such state: make the recipe with tensor_flags",
         counted ? "updated" : "counted", program_->name);
}

// Checks that a shard begins where a block begins. An empty shard has no block.
void LayoutCheck::check_block_cut(const TensorSpec& spec, size_t index) const {
  if (spec.offset == 0 || spec.elements == 0) return;
  uint64_t block = block_in(spec);
  if (spec.offset % block == 0) return;
  refuse(
      spec, index,
      "is a shard that begins within a block, and step @{} has values per {} elements: cut it at "
      "multiples of them",
      program_->name, block);
}

// Checks that a shard consists of whole rows, columns or squares, for a granularity of the program.
void LayoutCheck::check_whole(Granularity g, const TensorSpec& spec, size_t index) const {
  uint64_t columns = spec.column_count();
  uint64_t all = spec.element_count();
  if (is_whole(g, shape_of(all, columns), spec.offset, spec.elements)) return;
  if (g.rows == kAll) {
    refuse(spec, index,
           "is a shard, and step @{} has per-column values, which need all rows: give it whole "
           "tensors",
           program_->name);
  }
  if (g.rows == 1) {
    refuse(
        spec, index,
        "is a shard that ends within a row, and step @{} has per-row values: cut it at multiples "
        "of {} elements",
        program_->name, std::lcm(columns, uint64_t{kDrawnTogether}));
  }
  refuse(spec, index,
         "is a shard that is cut within {} rows of {}, and step @{} has values of squares of them: "
         "cut it at multiples of {} elements",
         g.rows, columns, program_->name, static_cast<uint64_t>(g.rows) * columns);
}

// Returns the elements of the largest block that a tensor has. If it lacks a buffer with one value per
// block, blocks inside of computations do not count for it.
uint64_t LayoutCheck::block_in(const TensorSpec& spec) const {
  int32_t block = 1;
  bool lacks = false;
  for (const Buffer& b : program_->buffers) {
    if (b.at == per::element || needs_rows(b.at)) continue;
    if (b.is_of(spec.element_count())) {
      block = std::max(block, block_of(b.at));
    } else {
      lacks = true;
    }
  }
  for (const Inst& inst : program_->insts) {
    if (!lacks && !needs_rows(inst.type.at)) block = std::max(block, block_of(inst.type.at));
  }
  return static_cast<uint64_t>(block);
}

// Checks that a tensor is a matrix that can be arranged: it has whole rows, of whole blocks, and numbers of rows and
// columns that the order needs.
void LayoutCheck::check_arranged(const TensorSpec& spec, size_t index) const {
  if (spec.elements == 0) return;
  uint64_t columns = spec.column_count();
  uint64_t rows = shape_of(spec.elements, columns).rows;
  for (const Buffer& b : program_->buffers) {
    if (!b.order.any()) continue;
    if (spec.offset % columns != 0 || spec.elements % columns != 0) {
      refuse(
          spec, index,
          "is a shard that is cut within a row of {}, and @{} of step @{} has rows in a different "
          "order: cut it at multiples of {} elements",
          columns, b.name, program_->name, columns);
    }
    auto block = static_cast<uint64_t>(b.at.rows == 1 ? b.at.columns : 1);
    if (columns % block != 0) {
      refuse(spec, index,
             "has rows of {}, and @{} of step @{} has the values of blocks of {} in a different "
             "order: step such tensors separately, without it",
             columns, b.name, program_->name, block);
    }
    uint64_t multiple = arranged_multiple(b.order, b.at);
    if (rows % multiple == 0 && columns % multiple == 0) continue;
    refuse(spec, index,
           "has {} rows of {}, and @{} of step @{} is transposed: both numbers must be multiples "
           "of {}; step such tensors separately, without it",
           rows, columns, b.name, program_->name, multiple);
  }
}

// Checks that the rows are a multiple of the blocks, because a block must not cross a row.
void LayoutCheck::check_blocks(const TensorSpec& spec, size_t index) const {
  if (spec.row_count() < 2) return;
  uint64_t block = block_in(spec);
  if (spec.column_count() % block == 0) return;
  refuse(spec, index,
         "has rows of {}, which are not a multiple of the blocks of {} in step @{} with per-row "
         "values: step such tensors separately, with f32 instead of the format",
         spec.column_count(), block, program_->name);
}

}  // namespace stepfuse
