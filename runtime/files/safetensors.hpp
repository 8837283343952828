// Files of named arrays in the safetensors format (8-byte header size, JSON header, data), written and read
// in portions. Knows ir dtypes and std.
//
// Every written file has a metadata key "xxh3_128" with the XXH3-128 of the file, computed with zeros
// instead of that value's 32 digits. It covers names, sizes, metadata and data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <stepfuse/types.hpp>

#include "runtime/files/new_file.hpp"

namespace stepfuse {

using TensorMetadata = std::map<std::string, std::string>;

struct ArrayHead {
  std::string name;
  DType dtype = DType::f32;
  uint64_t elements = 0;
};

class TensorWriter {
 public:
  class Hash;
  // Writes the header. Throws Error{device}, as all members do; the file at `path` is then unchanged.
  TensorWriter(const std::string& path, TensorMetadata metadata,
               const std::vector<ArrayHead>& arrays, unsigned mode = 0644);
  ~TensorWriter();
  // Writes the bytes of the arrays, one array after the other, in portions of any size.
  void write(const void* data, size_t bytes);
  void finish();

 private:
  NewFile file_;
  std::unique_ptr<Hash> hash_;
  uint64_t digest_at_ = 0;
  uint64_t left_ = 0;
};

class TensorReader {
 public:
  struct Array {
    DType dtype = DType::f32;
    std::vector<uint64_t> shape;
    uint64_t begin = 0;  // position in the file
    uint64_t bytes = 0;
  };

  // Opens the file and reads its header. Throws Error{usage} if the file is missing, truncated or in a
  // different format, or if its arrays overlap or do not fill it.
  explicit TensorReader(std::string path);
  ~TensorReader();
  TensorReader(const TensorReader&) = delete;
  TensorReader& operator=(const TensorReader&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // in bytes
  const TensorMetadata& metadata() const { return metadata_; }
  // Returns a field of the metadata; throws Error{usage} if it is missing or, for number(), not a whole
  // number.
  const std::string& text(const std::string& key) const;
  uint64_t number(const std::string& key) const;
  const std::map<std::string, Array>& arrays() const { return arrays_; }
  // Throws Error{usage} that names `array` if it is missing or has a different dtype or size.
  const Array& at(const std::string& array, DType dtype, uint64_t elements) const;
  const Array& at(const std::string& array) const;

  // Reads the whole file. Throws Error{usage} if it has no digest or is damaged.
  void check_digest() const;
  // Reads `bytes` of the array, starting at its byte `skip`.
  void read(const Array& array, uint64_t skip, void* to, size_t bytes) const;
  std::string read(const Array& array) const;

 private:
  [[noreturn]] void refuse(const std::string& why) const;
  void parse(const std::string& header);
  void check_cover() const;
  void read_at(uint64_t offset, void* to, size_t bytes) const;

  std::string path_;
  TensorMetadata metadata_;
  std::map<std::string, Array> arrays_;
  std::string header_;
  uint64_t size_ = 0;  // of the file
  int fd_ = -1;
};

}  // namespace stepfuse
