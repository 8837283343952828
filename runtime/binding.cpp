// Checks and keeps the caller's pointers. Knows the public API and fmt.
#include "runtime/binding.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace stepfuse {
namespace {
constexpr uint32_t kNoDuplicate = ~uint32_t{0};
}

Binding::Binding(const Program& program, const Layout& layout, StepTables& tables,
                 std::string_view gradient, std::shared_ptr<DeviceMemory> memory)
    : program_(program),
      layout_(layout),
      tables_(tables),
      memory_(std::move(memory)),
      gradient_(program.find_buffer(gradient)),
      bound_(program.buffers.size(), false),
      duplicate_of_(layout.size(), kNoDuplicate) {
  scratch_.reserve(layout.size());
  // Until its first gradient arrives a tensor has none.
  if (gradient_ < 0) return;
  for (abi::Tensor& t : tables.tensors) {
    if (t.size != 0) t.flags &= ~static_cast<uint32_t>(abi::kPresent);
  }
}

std::string Binding::describe(const Range& r) const {
  return fmt::format("@{} of tensor {} '{}'", program_.buffers[r.buffer].name, r.tensor,
                     layout_.tensors()[r.tensor].name.substr(0, 80));
}

Binding::Range Binding::range(size_t tensor, size_t buffer, void* pointer) const {
  auto begin = reinterpret_cast<uintptr_t>(pointer);
  uint64_t bytes = layout_.tensors()[tensor].size * size_of(tables_.dtype(tensor, buffer));
  return {begin, begin + bytes, static_cast<uint32_t>(tensor), static_cast<uint32_t>(buffer)};
}

void Binding::fail_overlap(const Range& a, const Range& b) const {
  throw Error(ErrorKind::bind,
              fmt::format("{} overlaps {}: arrays that a step writes must be disjoint from all "
                          "others",
                          describe(a), describe(b)));
}

void Binding::check_pointer(size_t tensor, size_t buffer, void* pointer) const {
  if (layout_.tensors()[tensor].size == 0) return;
  Range r = range(tensor, buffer, pointer);
  if (pointer == nullptr) {
    throw Error(ErrorKind::bind, fmt::format("{} is null", describe(r)));
  }
  size_t align = size_of(tables_.dtype(tensor, buffer));
  if (r.begin % align != 0) {
    throw Error(ErrorKind::bind, fmt::format("{} is at {}, not aligned to its {}-byte elements",
                                             describe(r), fmt::ptr(pointer), align));
  }
  if (r.end < r.begin) {
    throw Error(ErrorKind::bind, fmt::format("{} reaches beyond the address space", describe(r)));
  }
  if (std::string problem = memory_->problem_with(pointer); !problem.empty()) {
    throw Error(ErrorKind::bind, fmt::format("{} at {} is {}; this step runs on {}", describe(r),
                                             pointer, problem, memory_->device_name()));
  }
}

bool Binding::bind(std::string_view buffer, std::span<void* const> pointers) {
  int slot = program_.find_buffer(buffer);
  if (slot < 0) {
    std::string names;
    for (const Buffer& b : program_.buffers) names += " @" + b.name;
    throw Error(ErrorKind::bind, fmt::format("step @{} has no buffer '{}'; it has{}", program_.name,
                                             buffer.substr(0, 80), names));
  }
  if (slot == gradient_) {
    throw Error(ErrorKind::bind, fmt::format("@{} is given to run(), not bound", buffer));
  }
  if (pointers.size() != layout_.size()) {
    throw Error(ErrorKind::bind, fmt::format("@{} is bound to {} arrays; the layout has {} tensors",
                                             buffer, pointers.size(), layout_.size()));
  }
  auto b = static_cast<size_t>(slot);
  for (size_t t = 0; t < pointers.size(); ++t) check_pointer(t, b, pointers[t]);
  bool changed = differs(slot, 0, pointers);
  for (size_t t = 0; t < pointers.size(); ++t) tables_.pointer(t, b) = pointers[t];
  bound_[b] = true;
  complete_ = false;
  return changed;
}

bool Binding::differs(int buffer, size_t first, std::span<void* const> pointers) const {
  if (buffer < 0 || first + pointers.size() > layout_.size()) return false;
  for (size_t i = 0; i < pointers.size(); ++i) {
    // Of a duplicate only the long-lived arrays are ever used.
    bool used = buffer != gradient_ || duplicate_of_[first + i] == kNoDuplicate;
    if (used && pointers[i] != tables_.pointer(first + i, static_cast<size_t>(buffer))) return true;
  }
  return false;
}

void Binding::check_complete() {
  if (complete_) return;
  for (size_t b = 0; b < bound_.size(); ++b) {
    if (!bound_[b] && static_cast<int>(b) != gradient_ && layout_.size() > 0) {
      throw Error(ErrorKind::bind, fmt::format("@{} is not bound: call bind(\"{}\", …) first",
                                               program_.buffers[b].name, program_.buffers[b].name));
    }
  }
  find_duplicates();
  check_overlaps();
  complete_ = true;
}

// A tensor given twice with all arrays identical is taken once.
void Binding::find_duplicates() {
  std::fill(duplicate_of_.begin(), duplicate_of_.end(), kNoDuplicate);
  bool only_gradients = bound_.size() == (gradient_ >= 0 ? 1U : 0U);
  if (only_gradients) return;
  std::map<std::vector<void*>, uint32_t> seen;
  for (size_t t = 0; t < layout_.size(); ++t) {
    if (layout_.tensors()[t].size == 0) continue;
    if (gradient_ < 0) tables_.tensors[t].flags |= abi::kPresent;
    std::vector<void*> arrays;
    for (size_t b = 0; b < bound_.size(); ++b) {
      if (static_cast<int>(b) != gradient_) arrays.push_back(tables_.pointer(t, b));
    }
    auto [it, inserted] = seen.emplace(std::move(arrays), static_cast<uint32_t>(t));
    bool same_size = layout_.tensors()[it->second].size == layout_.tensors()[t].size;
    if (!inserted && same_size) {
      duplicate_of_[t] = it->second;
      tables_.tensors[t].flags &= ~static_cast<uint32_t>(abi::kPresent);
    }
  }
}

void Binding::check_overlaps() {
  written_.clear();
  read_.clear();
  for (size_t t = 0; t < layout_.size(); ++t) {
    if (layout_.tensors()[t].size == 0 || duplicate_of_[t] != kNoDuplicate) continue;
    for (size_t b = 0; b < bound_.size(); ++b) {
      if (static_cast<int>(b) == gradient_) continue;
      (is_written(b) ? written_ : read_).push_back(range(t, b, tables_.pointer(t, b)));
    }
  }
  auto by_address = [](const Range& a, const Range& b) { return a.begin < b.begin; };
  std::sort(written_.begin(), written_.end(), by_address);
  std::sort(read_.begin(), read_.end(), by_address);
  for (size_t i = 1; i < written_.size(); ++i) {
    if (written_[i].begin < written_[i - 1].end) fail_overlap(written_[i], written_[i - 1]);
  }
  for (const Range& r : read_) check_moved_gradient(r);
}

// `r` against the written arrays: these are disjoint and sorted, so one neighbour decides.
void Binding::check_moved_gradient(const Range& r) const {
  auto it = std::lower_bound(written_.begin(), written_.end(), r.end,
                             [](const Range& w, uintptr_t end) { return w.begin < end; });
  if (it != written_.begin() && std::prev(it)->end > r.begin) fail_overlap(r, *std::prev(it));
}

// Gradients that the step writes (zeroes) must be apart from each other and from what it reads.
void Binding::check_gradients_apart(size_t first, std::span<void* const> pointers) {
  auto g = static_cast<size_t>(gradient_);
  scratch_.clear();
  for (size_t t = 0; t < layout_.size(); ++t) {
    bool given = t >= first && t < first + pointers.size();
    void* p = given ? pointers[t - first] : tables_.pointer(t, g);
    bool skip = p == nullptr || layout_.tensors()[t].size == 0 || duplicate_of_[t] != kNoDuplicate;
    if (!skip) scratch_.push_back(range(t, g, p));
  }
  auto by_address = [](const Range& a, const Range& b) { return a.begin < b.begin; };
  std::sort(scratch_.begin(), scratch_.end(), by_address);
  for (size_t i = 1; i < scratch_.size(); ++i) {
    if (scratch_[i].begin < scratch_[i - 1].end) fail_overlap(scratch_[i], scratch_[i - 1]);
  }
  size_t i = 0;
  for (const Range& r : read_) {
    while (i < scratch_.size() && scratch_[i].end <= r.begin) ++i;
    if (i < scratch_.size() && scratch_[i].begin < r.end) fail_overlap(scratch_[i], r);
  }
}

bool Binding::set_gradients(size_t first, std::span<void* const> pointers) {
  if (gradient_ < 0) {
    if (pointers.empty()) return false;
    throw Error(
        ErrorKind::bind,
        fmt::format("step @{} has no gradient buffer, but gradients were given", program_.name));
  }
  if (first > layout_.size() || pointers.size() > layout_.size() - first) {
    throw Error(ErrorKind::bind,
                fmt::format("{} gradients from tensor {} on were given; the layout has {} tensors",
                            pointers.size(), first, layout_.size()));
  }
  auto g = static_cast<size_t>(gradient_);
  bool moved = false;
  for (size_t i = 0; i < pointers.size(); ++i) {
    size_t t = first + i;
    void* p = pointers[i];
    if (duplicate_of_[t] != kNoDuplicate) {
      size_t original = duplicate_of_[t];
      void* other = original >= first ? pointers[original - first] : tables_.pointer(original, g);
      if (p != other && p != nullptr) {
        throw Error(ErrorKind::bind,
                    fmt::format("{} and {} are the same arrays, but their gradients differ",
                                describe(range(t, g, p)), describe(range(original, g, other))));
      }
      continue;
    }
    if (p == tables_.pointer(t, g)) continue;
    moved = true;
    if (p == nullptr || layout_.tensors()[t].size == 0) continue;
    check_pointer(t, g, p);
    check_moved_gradient(range(t, g, p));
  }
  if (!moved) return false;
  if (is_written(g)) check_gradients_apart(first, pointers);
  for (size_t i = 0; i < pointers.size(); ++i) {
    size_t t = first + i;
    if (duplicate_of_[t] != kNoDuplicate) continue;
    tables_.pointer(t, g) = pointers[i];
    uint32_t& flags = tables_.tensors[t].flags;
    bool present = pointers[i] != nullptr || layout_.tensors()[t].size == 0;
    flags = present ? flags | abi::kPresent : flags & ~static_cast<uint32_t>(abi::kPresent);
  }
  return true;
}

}  // namespace stepfuse
