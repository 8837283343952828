// PTX and SASS with line information, as lines that know which lines of the CUDA text they are of.
// Knows the two texts' forms.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::explore {

struct CodeLine {
  std::string text;
  std::vector<int>
      sources;  // lines of the CUDA text, from 1: where it stands, then who called that
};

std::vector<std::string> split_lines(std::string_view text);

// PTX of --generate-line-info: its .loc and .file lines are read and left out.
std::vector<CodeLine> read_ptx(std::string_view ptx);

// `nvdisasm -c -gi` likewise; the encodings are not part of it.
std::vector<CodeLine> read_sass(std::string_view disassembly);

}  // namespace stepfuse::explore
