// Adds buffers in other orders to a step that writes copies of weights. Knows ir and fmt.
#include "ir/recipes/orders.hpp"

#include <string>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

namespace stepfuse::recipes {
namespace {

// Adds a buffer that has the values of number `from` in this order.
void add(Program* program, std::string name, int from, Order order) {
  const Buffer& source = program->buffers[static_cast<size_t>(from)];
  Buffer arranged{.name = std::move(name), .dtypes = source.dtypes, .access = Access::out};
  arranged.at = source.at;
  arranged.order = order;
  arranged.arranges = from;
  program->buffers.push_back(std::move(arranged));
}

// Returns the granularity of the values that are stored in a buffer.
Granularity stored_granularity(const Program& program, int buffer) {
  for (const Inst& inst : program.insts) {
    if (inst.op == Op::store && inst.slot == buffer) return program[inst.operands[0]].type.at;
  }
  return per::element;
}

}  // namespace

Program with_orders(Program program, const RecipeOptions& o) {
  bool both = o.orientation == Orientation::both;
  bool swizzled = o.scale_layout == ScaleLayout::swizzled;
  if (!both && !swizzled) return program;
  std::string_view asked = both ? "--orientation=both" : "--scale-layout=swizzled";
  int weight = program.find_buffer("weight");
  if (weight < 0 || o.master != Master::f32) {
    throw Error(ErrorKind::usage,
                fmt::format("{} is for copies of f32 masters: add --master=f32, or choose a "
                            "--copy-scale",
                            asked));
  }
  int scale = program.find_buffer("weight_scale");
  Granularity at = scale < 0 ? per::tensor : program.buffers[static_cast<size_t>(scale)].at;
  bool of_blocks = scale >= 0 && at.rows == 1;
  if (swizzled && !of_blocks) {
    throw Error(ErrorKind::usage,
                "--scale-layout=swizzled is for scales of blocks: use --copy-scale=mx, mxfp8 or "
                "nvfp4");
  }
  if (both && of_blocks &&
      !broadcasts(stored_granularity(program, scale), per::square(at.columns))) {
    throw Error(ErrorKind::usage,
                fmt::format("--copy-scale={} has scales of blocks along rows, which the transpose "
                            "does not have: use --copy-scale=mxfp8 for --orientation=both",
                            o.copy_scale.name()));
  }
  if (both) add(&program, "weight_t", weight, {.transposed = true});
  if (both && scale >= 0 && !swizzled) {
    add(&program, "weight_scale_t", scale, {.transposed = true});
  }
  if (swizzled) add(&program, "weight_scale_swizzled", scale, {.swizzled = true});
  if (both && swizzled) {
    add(&program, "weight_scale_t_swizzled", scale, {.transposed = true, .swizzled = true});
  }
  return program;
}

}  // namespace stepfuse::recipes
