// PTX and SASS with line information, as lines linked to lines of the CUDA text. Knows how the two
// texts write it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::explore {

struct CodeLine {
  std::string text;
  std::vector<int>
      sources;  // lines of the CUDA text, from 1: the instruction's own, then its callers'
};

std::vector<std::string> split_lines(std::string_view text);

// Reads PTX made with --generate-line-info, and leaves out its .loc and .file lines.
std::vector<CodeLine> read_ptx(std::string_view ptx);

// Reads the output of `nvdisasm -c -gi` the same way, and leaves out the encodings.
std::vector<CodeLine> read_sass(std::string_view disassembly);

// The function that a label of the disassembly starts, as in ".text.NAME:", or "".
std::string function_name(std::string_view line);
// The address that an instruction's line starts with, as in "/*0a60*/".
std::optional<uint64_t> address_of(std::string_view line);

}  // namespace stepfuse::explore
