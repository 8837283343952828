// A program of somebody else's that uses stepfuse: it only has to build and run.
#include <cstdio>

#include <stepfuse/stepfuse.hpp>

int main() {
  stepfuse::Program p = stepfuse::make_recipe("adamw", {.clip = stepfuse::Clip::l2});
  stepfuse::Layout layout;
  layout.add({.name = "w", .size = 1000});
  stepfuse::Step step(p, layout, stepfuse::Device::interpreter());
  std::printf("%zu bytes\n", step.workspace_bytes());
  return step.workspace_bytes() > 0 ? 0 : 1;
}
