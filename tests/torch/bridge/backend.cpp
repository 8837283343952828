// The ways to run a program that the comparison with PyTorch knows. Knows everything.
#include "tests/torch/bridge/backend.hpp"

#include "ir/error.hpp"
#include "ir/interpreter.hpp"

namespace stepfuse::torch_check {
namespace {

class Interpret : public Backend {
 public:
  void run(const Program& program, StepData& data) override { interpret(program, data); }
};

}  // namespace

std::unique_ptr<Backend> make_backend(const std::string& name, const Program&) {
  if (name == "interpret") return std::make_unique<Interpret>();
  throw Error(ErrorKind::usage, "unknown backend '" + name + "'; there is interpret");
}

}  // namespace stepfuse::torch_check
