// Reads and writes safetensors files. Knows std, the file system, nlohmann-json and the hash.
#include "runtime/files/safetensors.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "ir/text/words.hpp"
#include "runtime/files/hash128.hpp"
#include "runtime/files/json_text.hpp"

namespace stepfuse {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxHeader = uint64_t{100} << 20;  // the limit of the format's own reader
constexpr size_t kBlock = size_t{1} << 20;
constexpr const char* kDigest = "xxh3_128";
const std::string kNoDigest(32, '0');

uint64_t whole_number(const Json& value) {
  if (!value.is_number_unsigned()) throw std::invalid_argument("not a whole number");
  return value.get<uint64_t>();
}

// Returns the elements of a shape, or the largest number if there are more.
uint64_t elements_of(const std::vector<uint64_t>& shape) {
  uint64_t product = 1;
  for (uint64_t d : shape) {
    product = d != 0 && product > ~uint64_t{0} / d ? ~uint64_t{0} : product * d;
  }
  return product;
}

// Returns the text in JSON's quotes. Names are the user's and may be invalid UTF-8.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string joined(const std::map<std::string, std::string>& entries) {
  std::string text;
  for (const auto& [key, value] : entries) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", key, value);
  }
  return "{" + text + "}";
}

}  // namespace

class TensorWriter::Hash : public Hash128 {};

// --- writing

TensorWriter::TensorWriter(const std::string& path, TensorMetadata metadata,
                           const std::vector<ArrayHead>& arrays, unsigned mode)
    : file_(path, mode), hash_(std::make_unique<Hash>()) {
  metadata[kDigest] = kNoDigest;
  // These are texts because a Json object's destructor allocates, and without memory that would end the
  // process.
  std::map<std::string, std::string> header, words;
  for (const auto& [key, value] : metadata) words[quoted(key)] = quoted(value);
  header[quoted("__metadata__")] = joined(words);
  for (const ArrayHead& a : arrays) {
    uint64_t end = left_ + a.elements * size_of(a.dtype);
    header[quoted(a.name)] = fmt::format(R"({{"data_offsets":[{},{}],"dtype":"{}","shape":[{}]}})",
                                         left_, end, info(a.dtype).code, a.elements);
    left_ = end;
  }
  std::string text = joined(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // aligns the data
  uint64_t size = text.size();
  std::string digest = quoted(kDigest) + ":" + quoted(kNoDigest);
  digest_at_ = sizeof size + text.find(digest) + digest.size() - kNoDigest.size() - 1;
  left_ += sizeof size + size;
  write(&size, sizeof size);
  write(text.data(), text.size());
}

TensorWriter::~TensorWriter() = default;

void TensorWriter::write(const void* data, size_t bytes) {
  check_internal(bytes <= left_, "more bytes than the arrays have");
  left_ -= bytes;
  file_.write(data, bytes);
  hash_->add(data, bytes);
}

void TensorWriter::finish() {
  check_internal(left_ == 0, "fewer bytes than the arrays have");
  std::string digest = hash_->hex();
  file_.write_at(digest_at_, digest.data(), digest.size());
  file_.commit();
}

// --- reading

void TensorReader::refuse(const std::string& why) const {
  throw Error(ErrorKind::usage, fmt::format("{}: {}", path_, why));
}

TensorReader::TensorReader(std::string path) : path_(std::move(path)) {
  // Do not block on a pipe. open() also succeeds on a folder, so the type is checked.
  fd_ = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd_ < 0) refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
  try {
    struct stat status = {};
    if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
      refuse("cannot be read: it is not a file");
    }
    size_ = static_cast<uint64_t>(status.st_size);
    uint64_t length = 0;
    if (size_ < sizeof length) refuse("truncated: not a safetensors file");
    read_at(0, &length, sizeof length);
    if (length > kMaxHeader || length > size_ - sizeof length) {
      refuse("truncated, or not a safetensors file");
    }
    header_.resize(length);
    read_at(sizeof length, header_.data(), length);
    parse(header_);
    check_cover();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

TensorReader::~TensorReader() { ::close(fd_); }

void TensorReader::parse(const std::string& header) try {
  uint64_t data = sizeof(uint64_t) + header.size();
  Json root = parse_json(header);
  if (!root.is_object()) refuse("its header is not a safetensors header");
  for (const auto& [name, entry] : root.items()) {
    if (name == "__metadata__") {
      metadata_ = entry.get<TensorMetadata>();
      continue;
    }
    Array array;
    const auto& type = entry.at("dtype").get_ref<const std::string&>();
    const auto* known = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                     [&](const DTypeInfo& row) { return row.code == type; });
    if (known == std::end(kDTypes)) {
      refuse(fmt::format("array '{}' has type {}, which stepfuse does not read", name.substr(0, 80),
                         type.substr(0, 80)));
    }
    array.dtype = static_cast<DType>(known - std::begin(kDTypes));
    for (const Json& d : entry.at("shape")) array.shape.push_back(whole_number(d));
    uint64_t begin = whole_number(entry.at("data_offsets").at(0));
    uint64_t end = whole_number(entry.at("data_offsets").at(1));
    if (begin > end || end > size_ - data) {
      refuse(fmt::format("truncated: array '{}' lies outside the file", name.substr(0, 80)));
    }
    array.begin = data + begin;
    array.bytes = end - begin;
    uint64_t elements = elements_of(array.shape);
    if (elements > array.bytes || elements * size_of(array.dtype) != array.bytes) {
      refuse(fmt::format("array '{}' has {} bytes, which does not fit its shape",
                         name.substr(0, 80), array.bytes));
    }
    arrays_.emplace(name, std::move(array));
  }
} catch (const Json::exception&) {
  refuse("its header is not a safetensors header");
} catch (const JsonTooDeep& e) {
  refuse(fmt::format("its header has {}", e.what()));
} catch (const std::invalid_argument&) {
  refuse("its header has a size that is not a whole number");
}

// Checks that the arrays are adjacent and fill the file. Then a small file cannot claim much memory, and
// nobody can append to it unseen.
void TensorReader::check_cover() const {
  std::vector<const Array*> order;
  for (const auto& [name, array] : arrays_) order.push_back(&array);
  std::sort(order.begin(), order.end(), [](const Array* a, const Array* b) {
    return std::pair(a->begin, a->bytes) < std::pair(b->begin, b->bytes);
  });
  uint64_t at = sizeof(uint64_t) + header_.size();
  for (const Array* a : order) {
    if (a->begin < at) refuse("damaged: its arrays overlap");
    if (a->begin > at) refuse("damaged: there are bytes between its arrays");
    at += a->bytes;
  }
  if (at != size_) refuse(fmt::format("damaged: {} bytes follow its arrays", size_ - at));
}

void TensorReader::read_at(uint64_t offset, void* to, size_t bytes) const {
  char* p = static_cast<char*>(to);
  while (bytes > 0) {
    ssize_t n = ::pread(fd_, p, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
    if (n == 0) refuse("truncated while it was read");
    p += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
}

const std::string& TensorReader::text(const std::string& key) const {
  auto it = metadata_.find(key);
  if (it == metadata_.end()) refuse(fmt::format("its metadata has no {}", key));
  return it->second;
}

uint64_t TensorReader::number(const std::string& key) const {
  auto value = parse_number<uint64_t>(text(key));
  if (!value) refuse(fmt::format("its {} is not a number", key));
  return *value;
}

const TensorReader::Array& TensorReader::at(const std::string& array) const {
  auto it = arrays_.find(array);
  if (it == arrays_.end()) refuse(fmt::format("its array '{}' is missing", array));
  return it->second;
}

const TensorReader::Array& TensorReader::at(const std::string& array, DType dtype,
                                            uint64_t elements) const {
  const Array& found = at(array);
  if (found.dtype != dtype) {
    refuse(fmt::format("its array '{}' is {}, not {}", array, name(found.dtype), name(dtype)));
  }
  uint64_t has = found.bytes / size_of(dtype);
  if (has != elements) {
    refuse(
        fmt::format("its array '{}' has {}, not {}", array, count_words(has, "element"), elements));
  }
  return found;
}

void TensorReader::read(const Array& array, uint64_t skip, void* to, size_t bytes) const {
  check_internal(skip <= array.bytes && bytes <= array.bytes - skip, "read past the array");
  read_at(array.begin + skip, to, bytes);
}

std::string TensorReader::read(const Array& array) const {
  std::string bytes(array.bytes, '\0');
  read(array, 0, bytes.data(), bytes.size());
  return bytes;
}

void TensorReader::check_digest() const {
  auto found = metadata_.find(kDigest);
  size_t at =
      found == metadata_.end() ? std::string::npos : header_.find('"' + found->second + '"');
  if (at == std::string::npos || found->second.size() != kNoDigest.size()) {
    refuse(fmt::format("it has no digest ({}), which is needed to detect damage", kDigest));
  }
  std::string header = header_;
  header.replace(at + 1, kNoDigest.size(), kNoDigest);
  uint64_t length = header.size();
  TensorWriter::Hash hash;
  hash.add(&length, sizeof length);
  hash.add(header.data(), header.size());
  std::vector<char> block(kBlock);
  for (uint64_t offset = sizeof length + length; offset < size_;) {
    size_t n = std::min<uint64_t>(block.size(), size_ - offset);
    read_at(offset, block.data(), n);
    hash.add(block.data(), n);
    offset += n;
  }
  if (hash.hex() != found->second) refuse("damaged: its checksum does not match");
}

}  // namespace stepfuse
