// CUDA text of the address of a chunk's part of an array. Knows the plan and the kernel ABI.
#include <algorithm>

#include <fmt/format.h>

#include "compiler/abi.hpp"
#include "compiler/cuda/ops.hpp"
#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {

std::string array_base(const Emission& e, const plan::ArrayUse& use) {
  using Owner = plan::Array::Owner;
  const plan::Array& a = e.plan.array(use);
  std::string per_block = block_of(a.at) == 1 ? "" : fmt::format(" / {}", block_of(a.at));
  std::string begin = needs_rows(a.at) ? fmt::format("tile_of<{}, {}>(tensor, line, column)",
                                                     a.at.rows, a.at.columns)
                                       : "chunk.begin" + per_block;
  if (a.owner == Owner::caller) {
    return fmt::format("global<{}>(ctx.step.pointers, u64(tensor_index) * {} + {}) + {}",
                       c_type(use.dtype), e.plan.buffer_count, a.index, begin);
  }
  std::string place;
  if (a.owner == Owner::scratch) {
    // Places are counted in the array's widest storage type, so that tensors never overlap.
    size_t places = a.max_bytes / size_of(use.dtype);
    std::string scale = places == 1 ? "" : fmt::format(" * {}", places);
    place = fmt::format("tensor.scratch_base{}{} + {}", per_block, scale, begin);
  } else if (a.is_combined()) {
    place = fmt::format("base_of(ctx.step, {}, tensor_index) + {}", e.plan.base_of(a.at), begin);
  } else {
    place = fmt::format("ctx.step.parts[{}].begin[tensor_index] + column", abi::kColumnsOfTensors);
  }
  return fmt::format("global<{}>(ctx.step.{}, {}) + {}", c_type(use.dtype),
                     plan::context_array(a.owner), a.index, place);
}

std::string load_comment(const Emission& e, const plan::Body& body, const plan::ArrayUse& use) {
  auto loads = [&](const plan::Inst& inst) {
    return inst.op == Op::load && &body.arrays[static_cast<size_t>(inst.index)] == &use;
  };
  auto it = std::find_if(body.code.begin(), body.code.end(), loads);
  return it == body.code.end() ? "" : e.comment(it->value);
}

bool is_aligned_alone(const Emission& e, const plan::ArrayUse& use) {
  Granularity at = e.plan.array(use).at;
  return needs_rows(at) && at.columns == 1 && size_of(use.dtype) == 4;
}

std::string store_condition(const Emission& e, const plan::ArrayUse& use, const plan::Store& s) {
  const plan::Array& a = e.plan.array(use);
  // Several workers may process its rows at once. Values combined row by row are stored with each row.
  bool once = needs_rows(a.at) && !a.is_combined();
  std::string rows = once ? fmt::format("if (line % {} == 0) ", a.at.rows) : "";
  return s.predicate == kNone ? rows : rows + fmt::format("if ({}) ", e.name(s.predicate));
}

}  // namespace stepfuse::cuda
