// The host arrays of one buffer. Knows ir and the error type.
#include "tools/workload/arrays.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

namespace stepfuse {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kPage = 4096;  // devices register whole pages
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kGuard = 64;  // guard bytes after each array, at least; a full vector
constexpr char kPattern = '\xa5';

size_t bytes_of(const ArraySet::Spec& s) { return s.size * size_of(s.dtype); }
size_t lead_of(const ArraySet::Spec& s) { return s.misalign * size_of(s.dtype); }

bool holds_pattern(const char* begin, const char* end) {
  return std::all_of(begin, end, [](char c) { return c == kPattern; });
}

}  // namespace

void ArraySet::Free::operator()(char* p) const { std::free(p); }

ArraySet::ArraySet(std::vector<Spec> specs) : specs_(std::move(specs)) {
  size_t total = kAlignment;
  for (const Spec& s : specs_) {
    size_t share = lead_of(s) + bytes_of(s) + kGuard;
    total += (share + kAlignment - 1) / kAlignment * kAlignment;
    ends_.push_back(total);
  }
  // Large blocks use huge pages if the system has them, like a trainer's allocator.
  size_t page = total >= kHugePage ? kHugePage : kPage;
  bytes_ = (total + page - 1) / page * page;
  block_.reset(static_cast<char*>(std::aligned_alloc(page, bytes_)));
  if (!block_) {
    throw Error(
        ErrorKind::device,
        fmt::format("out of memory: cannot allocate {} bytes for the arrays of one buffer", total));
  }
  if (page == kHugePage) madvise(block_.get(), bytes_, MADV_HUGEPAGE);
  size_t begin = kAlignment;
  std::memset(block_.get(), kPattern, begin);
  for (size_t t = 0; t < specs_.size(); ++t) {
    char* array = block_.get() + begin + lead_of(specs_[t]);
    char* end = block_.get() + ends_[t];
    std::memset(block_.get() + begin, kPattern, lead_of(specs_[t]));
    std::memset(array + bytes_of(specs_[t]), kPattern,
                static_cast<size_t>(end - array) - bytes_of(specs_[t]));
    pointers_.push_back(specs_[t].size == 0 ? nullptr : array);
    begin = ends_[t];
  }
}

std::optional<size_t> ArraySet::damaged() const {
  size_t begin = 0;
  for (size_t t = 0; t < specs_.size(); ++t) {
    const char* first = block_.get() + begin;
    const char* array = block_.get() + (t == 0 ? kAlignment : begin) + lead_of(specs_[t]);
    const char* end = block_.get() + ends_[t];
    if (!holds_pattern(first, array) || !holds_pattern(array + bytes_of(specs_[t]), end)) return t;
    begin = ends_[t];
  }
  return std::nullopt;
}

}  // namespace stepfuse
