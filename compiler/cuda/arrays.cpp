// CUDA text of where a chunk's part of an array begins. Knows the plan and the kernel ABI.
#include <algorithm>

#include <fmt/format.h>

#include "compiler/abi.hpp"
#include "compiler/cuda/ops.hpp"
#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {

std::string array_base(const Emission& e, const plan::ArrayUse& use) {
  using Kind = plan::Array::Kind;
  const plan::Array& a = e.plan.array(use);
  std::string per_block = a.block == 1 ? "" : fmt::format(" / {}", a.block);
  std::string begin = a.of_squares() ? "first_square" : "chunk.begin" + per_block;
  auto at = [&](std::string_view table, std::string_view place) {
    return fmt::format("global<{}>(ctx.step.{}, {}) + {}", c_type(use.dtype), table, a.index,
                       place);
  };
  std::string column =
      fmt::format("ctx.step.parts[{}].begin[tensor_index] + column", abi::kColumnsOfTensors);
  switch (a.kind) {
    case Kind::buffer:
      return fmt::format("global<{}>(ctx.step.pointers, u64(tensor_index) * {} + {}) + {}",
                         c_type(use.dtype), e.plan.buffer_count, a.index, begin);
    case Kind::scratch: {
      // Places are counted in the array's widest storage type, so that tensors never overlap.
      size_t places = a.max_bytes / size_of(use.dtype);
      std::string scale = places == 1 ? "" : fmt::format(" * {}", places);
      return at("scratch", fmt::format("tensor.scratch_base{}{} + {}", per_block, scale, begin));
    }
    case Kind::state:
      return at("states", column);
    case Kind::result:
      return at("results", column);
    case Kind::squares:
      return at("results", "tensor.square_base + first_square");
    case Kind::strips:
      break;
  }
  return at("slots", "tensor.strip_base + line / abi::kStripRows * columns + column");
}

std::string load_comment(const Emission& e, const plan::Body& body, const plan::ArrayUse& use) {
  auto loads = [&](const plan::Inst& inst) {
    return inst.op == Op::load && &body.arrays[static_cast<size_t>(inst.index)] == &use;
  };
  auto it = std::find_if(body.code.begin(), body.code.end(), loads);
  return it == body.code.end() ? "" : e.comment(it->value);
}

bool is_aligned_alone(const Emission& e, const plan::ArrayUse& use) {
  return e.plan.array(use).of_columns() && size_of(use.dtype) == 4;
}

std::string store_condition(const Emission& e, const plan::ArrayUse& use, const plan::Store& s) {
  const plan::Array& a = e.plan.array(use);
  // Its rows may be done by several, at once; what is combined row by row is stored with each.
  bool once = a.of_squares() && a.kind != plan::Array::Kind::squares;
  std::string rows = once ? fmt::format("if (line % {} == 0) ", a.rows) : "";
  return s.predicate == kNone ? rows : rows + fmt::format("if ({}) ", e.name(s.predicate));
}

}  // namespace stepfuse::cuda
