// What is kept of a compile that failed, and the command that compiles it again. Knows the variant
// and the file system.
#pragma once

#include <string>
#include <string_view>

#include "compiler/variant.hpp"

namespace stepfuse {

struct FailedCompile {
  const Variant& variant;
  std::string_view text;     // of the kernel
  std::string_view suffix;   // "ll", "cu"
  std::string_view target;   // for the files' names: "sm_90"
  std::string_view command;  // what to do with the step: "dump --emit=cubin --arch=sm_90"
};

// Keeps the step (.sf), its storage types (.json, a layout) and the kernel's text in the temporary
// folder. Lines for an error's message that say where and how to replay it; "" if they could not be
// written.
std::string keep_reproducer(const FailedCompile& failed);

}  // namespace stepfuse
