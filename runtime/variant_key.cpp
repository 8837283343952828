// The readable preimage of a variant's key. Knows the schedule, ir and fmt.
#include "runtime/variant_key.hpp"

#include <fmt/format.h>

#include "ir/printer.hpp"

namespace stepfuse {
namespace {
// Raised whenever an emitter or the kernel ABI changes what it makes of the same schedule.
constexpr int kEmitterVersion = 1;
}  // namespace

std::string variant_key(const Schedule& schedule, std::string_view target) {
  std::string key = fmt::format("stepfuse variant {}\ntarget {}\nform {}\n", kEmitterVersion,
                                target, name(schedule.form));
  for (const Signature& s : schedule.signatures) {
    key += "signature";
    for (DType t : s) key += fmt::format(" {}", name(t));
    key += '\n';
  }
  Program program = schedule.program;
  for (Arg& a : program.args) a.fallback.reset();
  for (State& s : program.states) s.initial = {};
  for (Buffer& b : program.buffers) b.init = Buffer::Init::none;
  return key + print_canonical(program);
}

}  // namespace stepfuse
