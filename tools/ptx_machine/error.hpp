// The machine's exception, with a kind for each fault. Knows only the standard library.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace ptx {

enum class ErrorKind {
  syntax,              // the text is not PTX that we can read
  unknown_opcode,      // an opcode that has no row in the table
  unknown_modifier,    // an opcode in a form that its rows do not list
  bad_operand,         // an operand of the wrong kind, width or count
  unresolved_symbol,   // a name that nothing declares
  bad_launch,          // a launch that cannot start: size, parameters, shared memory
  out_of_bounds,       // an access that no allocation contains
  misaligned,          // an address that is not a multiple of the access's size
  read_only,           // a store to constant or parameter memory
  uninitialised,       // a read of memory that nobody wrote
  race,                // two conflicting accesses that nothing orders
  hang,                // threads wait for something that cannot or does not come
  divergent_barrier,   // one warp arrives at one barrier from two places
  bad_warp_operation,  // a shuffle or vote that its own member mask excludes
  trap,                // the kernel executed trap
};

std::string_view to_string(ErrorKind kind);

class MachineError : public std::runtime_error {
 public:
  MachineError(ErrorKind kind, const std::string& message);

  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace ptx
