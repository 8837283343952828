// Names of the error kinds; knows only error.hpp.
#include "tools/ptx_machine/error.hpp"

namespace ptx {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::syntax:
      return "syntax";
    case ErrorKind::unknown_opcode:
      return "unknown_opcode";
    case ErrorKind::unknown_modifier:
      return "unknown_modifier";
    case ErrorKind::bad_operand:
      return "bad_operand";
    case ErrorKind::unresolved_symbol:
      return "unresolved_symbol";
    case ErrorKind::bad_launch:
      return "bad_launch";
    case ErrorKind::out_of_bounds:
      return "out_of_bounds";
    case ErrorKind::misaligned:
      return "misaligned";
    case ErrorKind::read_only:
      return "read_only";
    case ErrorKind::uninitialised:
      return "uninitialised";
    case ErrorKind::race:
      return "race";
    case ErrorKind::hang:
      return "hang";
    case ErrorKind::divergent_barrier:
      return "divergent_barrier";
    case ErrorKind::bad_warp_operation:
      return "bad_warp_operation";
    case ErrorKind::trap:
      return "trap";
  }
  return "unknown";
}

MachineError::MachineError(ErrorKind kind, const std::string& message)
    : std::runtime_error(std::string(to_string(kind)) + ": " + message), kind_(kind) {}

}  // namespace ptx
