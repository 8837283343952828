// Files of named arrays in the safetensors format (8-byte header size, JSON header, data). Knows ir
// dtypes, std and nlohmann-json.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <stepfuse/types.hpp>

namespace stepfuse {

struct NamedArray {
  DType dtype = DType::f32;
  std::vector<uint64_t> shape;
  std::string bytes;  // row-major, little-endian
};

// The whole file in memory. A checksum of the data (XXH3-128, metadata key "xxh3_128") is written
// and, where there, checked.
struct TensorFile {
  std::map<std::string, std::string> metadata;
  std::map<std::string, NamedArray> arrays;

  // Throws Error{usage} naming `array` and what is wrong, if it is missing or of another dtype or size.
  const NamedArray& at(const std::string& array, DType dtype, uint64_t elements) const;
};

// Written beside `path` and renamed: an existing file is replaced whole or not at all. Throws
// Error{device} when it cannot be written.
void write_tensor_file(const std::string& path, const TensorFile& file);

// Throws Error{usage} saying what is wrong with a missing, truncated, damaged or foreign file.
TensorFile read_tensor_file(const std::string& path);

}  // namespace stepfuse
