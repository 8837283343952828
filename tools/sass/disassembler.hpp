// nvdisasm as a process: NVIDIA's disassembler, from the CUDA toolkit or PyPI's nvidia-cuda-nvdisasm. Knows
// POSIX.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::sass {

// $STEPFUSE_NVDISASM, or the one in the PATH; empty where there is none.
std::string find_disassembler();

// "13.2" of that program. The forms that parse() reads were seen in 12.x and 13.x.
std::string disassembler_version(const std::string& program);

// What `nvdisasm -c -hex` prints of a cubin, or with other words. Throws Error{device} where it
// cannot be run.
std::string disassemble(const std::string& program, std::string_view cubin,
                        const std::vector<std::string>& words = {"-c", "-hex"});

}  // namespace stepfuse::sass
