// Layout: sizes, dtypes and groups of the parameter tensors. Knows the public API and fmt.
#include <algorithm>

#include <fmt/format.h>

#include <stepfuse/stepfuse.hpp>

#include "ir/semantics/random.hpp"
#include "ir/text/words.hpp"

namespace stepfuse {
namespace {
constexpr uint64_t kMaxElements = uint64_t{1} << 44;  // 64 TiB of f32: a larger tensor is a mistake
constexpr int kMaxGroups = 1 << 20;
constexpr size_t kMaxTensors = size_t{1} << 30;
}  // namespace

void Layout::check(const TensorSpec& t) const {
  auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::bind,
                fmt::format("tensor {} '{}': {}", tensors_.size(), t.name.substr(0, 80), what));
  };
  if (t.elements > kMaxElements) {
    fail(fmt::format("{} elements are too many (a negative size?); a layout holds at most 2^44",
                     t.elements));
  }
  if (elements_ + t.elements > kMaxElements) {
    fail(fmt::format(
        "its {} elements and the {} before it are too many; a layout holds at most 2^44",
        t.elements, elements_));
  }
  if (tensors_.size() >= kMaxTensors) fail("a layout holds at most 2^30 tensors");
  if (t.group < 0 || t.group >= kMaxGroups) {
    fail(fmt::format("group {} is not in 0 … {}", t.group, kMaxGroups - 1));
  }
  if (t.offset % kDrawnTogether != 0 || t.offset > kMaxElements) {
    fail(fmt::format("offset {} is not a multiple of {}, as random numbers need: cut shards there",
                     t.offset, kDrawnTogether));
  }
  if (t.full_elements > kMaxElements) {
    fail(
        fmt::format("full_elements {} is too many (a negative size?); a tensor has at most 2^44 "
                    "elements",
                    t.full_elements));
  }
  if (t.full_elements != 0 && t.full_elements < t.offset + t.elements) {
    fail(
        fmt::format("full_elements {} is less than its offset and elements, {}: give the size of "
                    "the whole tensor",
                    t.full_elements, t.offset + t.elements));
  }
  if (t.columns > kMaxElements) {
    fail(fmt::format("columns {} is too many (a negative size?); a row has at most 2^44 elements",
                     t.columns));
  }
  if (t.columns != 0 && t.element_count() % t.columns != 0) {
    fail(fmt::format("its {} are not a whole number of rows of {}",
                     count_words(t.element_count(), "element"), count_words(t.columns, "column")));
  }
}

Layout& Layout::add(TensorSpec t) {
  check(t);
  group_count_ = std::max(group_count_, t.group + 1);
  elements_ += t.elements;
  tensors_.push_back(std::move(t));
  return *this;
}

Layout& Layout::reserve_groups(int count) {
  if (count < 1 || count > kMaxGroups) {
    throw Error(ErrorKind::bind, fmt::format("{} groups are not 1 … {}", count, kMaxGroups));
  }
  group_count_ = std::max(group_count_, count);
  return *this;
}

Layout& Layout::set_group(Tensor moved, Group to) {
  size_t tensor = moved.index;
  int group = to.index;
  if (tensor >= tensors_.size()) {
    throw Error(ErrorKind::bind, fmt::format("tensor {} does not exist: the layout has {}", tensor,
                                             index_words(tensors_.size(), "tensor")));
  }
  if (group < 0 || group >= group_count_) {
    throw Error(ErrorKind::bind,
                fmt::format("group {} does not exist: the layout has {}; make room "
                            "with Layout::reserve_groups",
                            group, index_words(group_count_, "group")));
  }
  tensors_[tensor].group = group;
  return *this;
}

}  // namespace stepfuse
