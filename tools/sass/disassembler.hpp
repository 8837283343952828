// nvdisasm as a process: NVIDIA's disassembler, from the CUDA toolkit or PyPI's nvidia-cuda-nvdisasm. Knows
// POSIX.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::sass {

// $STEPFUSE_NVDISASM, else nvdisasm in the PATH, else nvdisasm/nvdisasm next to the program or in
// the build folder around it, where tools/setup.sh puts it. Empty if none was found.
std::string find_disassembler();

// The same, but throws Error{device}, which says how to get nvdisasm, if none was found.
std::string require_disassembler();

// The program's version, as in "13.2". parse() has been tried with the output of 12.x and 13.x.
std::string disassembler_version(const std::string& program);

// Returns the output of `nvdisasm -c -hex` for a cubin; `words` replace these options. Throws
// Error{device} if the program cannot be run.
std::string disassemble(const std::string& program, std::string_view cubin,
                        const std::vector<std::string>& words = {"-c", "-hex"});

}  // namespace stepfuse::sass
