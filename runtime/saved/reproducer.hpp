// Keeps the files of a failed compilation, and the command that repeats it. Knows the variant and the file
// system.
#pragma once

#include <string>
#include <string_view>

#include "compiler/variant.hpp"

namespace stepfuse {

struct FailedCompile {
  const Variant& variant;
  std::string_view text;     // the kernel's text
  std::string_view suffix;   // "ll", "cu"
  std::string_view target;   // part of the files' names: "sm_90"
  std::string_view command;  // arguments of the command: "dump --emit=cubin --arch=sm_90"
};

// Writes the step (.sf), its storage types (.json, a layout) and the kernel's text to the temporary folder.
// Returns lines for an error's message that say where they are and how to replay them, or "" if they could
// not be written.
std::string keep_reproducer(const FailedCompile& failed);

}  // namespace stepfuse
