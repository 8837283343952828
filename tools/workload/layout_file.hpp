// Parameter layouts from JSON files (the format is in samples/layouts/README.md). Knows the public
// API and the file system.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/stepfuse.hpp>

namespace stepfuse {

// One tensor; entries with a `count` are already repeated.
struct TensorEntry {
  std::string name;
  uint64_t size = 0;
  uint64_t columns = 0;  // row length; 0 if the shape has no rows
  int group = 0;
  std::map<std::string, DType> dtypes = {};          // by buffer, if the file names one
  std::map<std::string, double> args = {};           // per-tensor arguments
  uint32_t misalign = 0;                             // elements above 64-byte alignment …
  std::map<std::string, uint32_t> misalign_of = {};  // … and by buffer, if different

  uint32_t misalign_for(const std::string& buffer) const {
    auto it = misalign_of.find(buffer);
    return it != misalign_of.end() ? it->second : misalign;
  }
};

struct LayoutFile {
  std::string name;
  std::string source;
  std::vector<TensorEntry> tensors;
};

// Throws Error{parse} with file and line for text that is not JSON, and with file and tensor for a
// field that is unknown, missing or out of range. Throws Error{usage} for a file that cannot be
// read. A .safetensors file gives its tensors' names and sizes.
LayoutFile read_layout_file(const std::string& path);
LayoutFile parse_layout(std::string_view text, std::string_view file = "<layout>");

// A layout of one tensor with `elements` elements.
LayoutFile single_tensor(uint64_t elements);
// The same as a matrix, as square as the number of elements allows; a vector if that is a prime number.
LayoutFile squarest_matrix(uint64_t elements);
// A matrix whose rows and columns are multiples of 128, with about as many elements.
LayoutFile single_matrix(uint64_t elements);

// Storage types by buffer name, for buffers that allow several.
using Bindings = std::map<std::string, DType, std::less<>>;

// The layout for a program, without entries about buffers that it does not have. A buffer with
// several storage types takes the tensor's, else the bound one, else the first that it declares.
// Throws Error{bind} for a type that the buffer does not allow.
Layout make_layout(const LayoutFile& file, const Program& program, const Bindings& bindings = {});

}  // namespace stepfuse
