// A kernel's parameters as words of the command line. Knows the machine's memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/ptx_machine/machine.hpp"

namespace ptx::cli {

// A number, or a buffer: "7", "0.5", "u32:64", "f32:100=0.5", "i32:64=index".
struct Parameter {
  std::string text;
  bool buffer = false;
};

struct Buffer {
  std::string type;
  u64 count = 0;
  u64 address = 0;
  u64 bytes = 0;
};

// The bytes that the kernel is called with, its buffers allocated and filled. Throws
// std::invalid_argument, which says what to write, for words that do not fit the parameters of this kernel.
std::vector<std::byte> pass(const std::vector<Parameter>& parameters, const Kernel& kernel,
                            Memory& memory, std::vector<Buffer>& buffers);

// The first values, as the type writes them.
std::string values_of(const Buffer& buffer, const std::vector<std::byte>& bytes);

}  // namespace ptx::cli
