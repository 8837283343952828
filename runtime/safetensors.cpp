// Reads and writes safetensors files. Knows std, nlohmann-json and xxHash.
#include "runtime/safetensors.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stepfuse/error.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stepfuse {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxHeader = uint64_t{100} << 20;  // as the format's own reader limits it
constexpr const char* kChecksum = "xxh3_128";

struct TypeName {
  DType dtype;
  std::string_view name;
};
constexpr TypeName kTypeNames[] = {
    {DType::boolean, "BOOL"}, {DType::i32, "I32"}, {DType::i64, "I64"}, {DType::f16, "F16"},
    {DType::bf16, "BF16"},    {DType::f32, "F32"}, {DType::f64, "F64"}};

std::string_view type_name(DType t) {
  for (const TypeName& n : kTypeNames) {
    if (n.dtype == t) return n.name;
  }
  internal_error("a dtype without a safetensors name");
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::usage, fmt::format("{}: {}", path, why));
}

std::string checksum_text(const TensorFile& file) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  for (const auto& [name, array] : file.arrays) {
    XXH3_128bits_update(state, name.data(), name.size());
    XXH3_128bits_update(state, array.bytes.data(), array.bytes.size());
  }
  XXH128_hash_t h = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

std::string header_text(const TensorFile& file) {
  Json header;
  header["__metadata__"] = file.metadata;
  header["__metadata__"][kChecksum] = checksum_text(file);
  uint64_t offset = 0;
  for (const auto& [name, array] : file.arrays) {
    uint64_t end = offset + array.bytes.size();
    header[name] = {
        {"dtype", type_name(array.dtype)}, {"shape", array.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data begins aligned
  return text;
}

void write_or_throw(int fd, const void* data, size_t bytes, const std::string& path) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    ssize_t n = ::write(fd, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      throw Error(ErrorKind::device,
                  fmt::format("cannot write {}: {}", path, std::strerror(errno)));
    }
    p += n;
    bytes -= static_cast<size_t>(n);
  }
}

NamedArray parse_array(const std::string& path, const std::string& name, const Json& entry,
                       std::string_view data) {
  NamedArray array;
  const std::string& type = entry.at("dtype").get_ref<const std::string&>();
  bool known = false;
  for (const TypeName& n : kTypeNames) {
    if (n.name != type) continue;
    array.dtype = n.dtype;
    known = true;
  }
  if (!known) refuse(path, fmt::format("array '{}' has the foreign type {}", name, type));
  array.shape = entry.at("shape").get<std::vector<uint64_t>>();
  auto offsets = entry.at("data_offsets").get<std::vector<uint64_t>>();
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.size()) {
    refuse(path, fmt::format("truncated: array '{}' lies outside the file", name));
  }
  uint64_t elements = 1;
  for (uint64_t d : array.shape)
    elements = d != 0 && elements > ~uint64_t{0} / d ? ~uint64_t{0} : elements * d;
  uint64_t bytes = offsets[1] - offsets[0];
  if (elements > bytes || elements * size_of(array.dtype) != bytes) {
    refuse(path, fmt::format("array '{}' has {} bytes, which is not its shape", name, bytes));
  }
  array.bytes = data.substr(offsets[0], bytes);
  return array;
}

}  // namespace

const NamedArray& TensorFile::at(const std::string& array, DType dtype, uint64_t elements) const {
  auto it = arrays.find(array);
  auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::usage, fmt::format("the file's array '{}' {}", array, what));
  };
  if (it == arrays.end()) fail("is missing");
  if (it->second.dtype != dtype) {
    fail(fmt::format("is {}, not {}", name(it->second.dtype), name(dtype)));
  }
  if (it->second.bytes.size() != elements * size_of(dtype)) {
    fail(
        fmt::format("has {} elements, not {}", it->second.bytes.size() / size_of(dtype), elements));
  }
  return it->second;
}

void write_tensor_file(const std::string& path, const TensorFile& file) {
  std::string header = header_text(file);
  uint64_t size = header.size();
  std::string partial = fmt::format("{}.{}.partial", path, ::getpid());
  int fd = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    throw Error(ErrorKind::device, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
  try {
    write_or_throw(fd, &size, sizeof size, path);
    write_or_throw(fd, header.data(), header.size(), path);
    for (const auto& [name, array] : file.arrays) {
      write_or_throw(fd, array.bytes.data(), array.bytes.size(), path);
    }
    if (::fsync(fd) != 0 || std::rename(partial.c_str(), path.c_str()) != 0) {
      throw Error(ErrorKind::device,
                  fmt::format("cannot write {}: {}", path, std::strerror(errno)));
    }
  } catch (...) {
    ::close(fd);
    ::unlink(partial.c_str());
    throw;
  }
  ::close(fd);
}

TensorFile read_tensor_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string content{std::istreambuf_iterator<char>(in), {}};
  uint64_t size = 0;
  if (content.size() < sizeof size) refuse(path, "truncated: not a safetensors file");
  std::memcpy(&size, content.data(), sizeof size);
  if (size > kMaxHeader || size > content.size() - sizeof size) {
    refuse(path, "truncated, or not a safetensors file");
  }
  std::string_view view = content;
  TensorFile file;
  try {
    Json header = Json::parse(view.substr(sizeof size, size));
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        file.metadata = entry.get<std::map<std::string, std::string>>();
      } else {
        file.arrays[name] = parse_array(path, name, entry, view.substr(sizeof size + size));
      }
    }
  } catch (const Json::exception&) {
    refuse(path, "its header is not a safetensors header");
  }
  auto sum = file.metadata.find(kChecksum);
  if (sum != file.metadata.end() && sum->second != checksum_text(file)) {
    refuse(path, "damaged: its checksum does not match");
  }
  return file;
}

}  // namespace stepfuse
