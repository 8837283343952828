// Checks and keeps the caller's pointers. Knows the public API and fmt.
#include "runtime/step/binding.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text/near_names.hpp"
#include "ir/text/words.hpp"

namespace stepfuse {
namespace {
constexpr uint32_t kNoDuplicate = ~uint32_t{0};
constexpr uintptr_t kWord = 4;  // codes are transposed in words of 4 bytes
}  // namespace

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
  folded_.reserve(layout.size());
  moved_.reserve(layout.size());
  for (size_t t = 0; t < layout.size(); ++t) set_present(t);
}

// Marks a tensor as present in this step if it is not a duplicate and has a gradient. All tensors of a step without
// gradients are present, too, and tensors without elements, unless their gradient is to decide.
void Binding::set_present(size_t tensor) {
  bool always = tables_.tensors[tensor].size == 0 && !layout_.tensors()[tensor].present_by_gradient;
  bool present =
      gradient_ < 0 || always || tables_.pointer(tensor, static_cast<size_t>(gradient_)) != nullptr;
  uint32_t& flags = tables_.tensors[tensor].flags;
  flags &= ~static_cast<uint32_t>(abi::kPresent);
  if (present && duplicate_of_[tensor] == kNoDuplicate) flags |= abi::kPresent;
}

std::string Binding::describe(const Range& r) const {
  return fmt::format("@{} of tensor {} '{}'", program_.buffers[r.buffer].name, r.tensor,
                     layout_.tensors()[r.tensor].name.substr(0, 80));
}

Binding::Range Binding::range(size_t tensor, size_t buffer, void* pointer) const {
  auto begin = reinterpret_cast<uintptr_t>(pointer);
  const TensorSpec& spec = layout_.tensors()[tensor];
  uint64_t values = program_.buffers[buffer].count(spec.elements, spec.column_count());
  uint64_t bytes = values * size_of(tables_.dtype(tensor, buffer));
  return {begin, begin + bytes, static_cast<uint32_t>(tensor), static_cast<uint32_t>(buffer)};
}

void Binding::fail_overlap(const Range& a, const Range& b) const {
  throw Error(ErrorKind::bind,
              fmt::format("{} overlaps {}: arrays that a step writes must be disjoint from all "
                          "others",
                          describe(a), describe(b)));
}

// Whether the buffer is the transpose of another one, or has one, by elements or codes.
bool Binding::is_transposed(size_t buffer) const {
  const std::vector<Buffer>& all = program_.buffers;
  return std::any_of(all.begin(), all.end(), [&](const Buffer& b) {
    bool moves_codes = b.at == per::element || packs_codes(b.at, b.dtypes.first());
    bool is_part = &b == &all[buffer] || b.arranges == static_cast<int32_t>(buffer);
    return b.order.transposed && moves_codes && is_part;
  });
}

void Binding::check_pointer(const Range& r, void* pointer) const {
  const TensorSpec& tensor = layout_.tensors()[r.tensor];
  if (tensor.elements == 0) return;
  bool absent = is_absent(r.tensor, r.buffer);
  if (absent && pointer == nullptr) return;
  if (absent) {
    throw Error(ErrorKind::bind,
                fmt::format("{} is bound, but a tensor of {} has no such array: give it nullptr",
                            describe(r), count_words(tensor.element_count(), "element")));
  }
  if (pointer == nullptr) {
    throw Error(ErrorKind::bind, fmt::format("{} is null", describe(r)));
  }
  size_t align = size_of(tables_.dtype(r.tensor, r.buffer));
  if (r.begin % kWord != 0 && is_transposed(r.buffer)) {
    throw Error(ErrorKind::bind,
                fmt::format("{} is at {}: an array that is transposed begins at a multiple of {} "
                            "bytes",
                            describe(r), fmt::ptr(pointer), kWord));
  }
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
  const void* last = static_cast<const char*>(pointer) + (r.end - r.begin - 1);
  if (std::string problem = memory_->problem_with(last); !problem.empty()) {
    throw Error(
        ErrorKind::bind,
        fmt::format("{} at {} has {} bytes, and its last one is {}; this step runs on {}: "
                    "give it a large enough array",
                    describe(r), pointer, r.end - r.begin, problem, memory_->device_name()));
  }
}

int Binding::find(std::string_view buffer) const {
  int slot = program_.find_buffer(buffer);
  if (slot >= 0) return slot;
  std::vector<std::string> known;
  for (const Buffer& b : program_.buffers) known.push_back(b.name);
  throw Error(ErrorKind::bind, fmt::format("step @{} has no buffer '{}'; it has @{}{}",
                                           program_.name, buffer.substr(0, 80),
                                           fmt::join(known, " @"), did_you_mean(buffer, known)));
}

ArrayShape Binding::shape(std::string_view buffer, size_t tensor) const {
  auto b = static_cast<size_t>(find(buffer));
  if (tensor >= layout_.size()) {
    throw Error(ErrorKind::bind, fmt::format("tensor {} does not exist: the layout has {}", tensor,
                                             index_words(layout_.size(), "tensor")));
  }
  return shape_of(b, tensor);
}

ArrayShape Binding::shape_of(size_t buffer, size_t tensor) const {
  const Buffer& b = program_.buffers[buffer];
  if (is_absent(tensor, buffer)) return {.dtype = b.dtypes.first()};
  const TensorSpec& spec = layout_.tensors()[tensor];
  return {tables_.dtype(tensor, buffer), b.count(spec.elements, spec.column_count())};
}

// A null array is left to check_pointer() and run(), which know whether the tensor may have none.
void Binding::check_array(size_t tensor, size_t buffer, const Array& array) const {
  if (array.data() == nullptr || is_absent(tensor, buffer)) return;
  ArrayShape expected = shape_of(buffer, tensor);
  bool same = array.elements() == expected.elements && array.dtypes().contains(expected.dtype);
  if (same) return;
  throw Error(ErrorKind::bind,
              fmt::format("{}: expected {} of {}; got {} of {}: pass an array of this type and "
                          "length, or a pointer to bind_raw() or run()",
                          describe(range(tensor, buffer, array.data())),
                          count_words(expected.elements, "element"), name(expected.dtype),
                          array.elements(), names(array.dtypes(), " or ")));
}

std::vector<void*> Binding::checked(std::string_view buffer, std::span<const Array> arrays) const {
  auto b = static_cast<size_t>(find(buffer));
  std::vector<void*> pointers;
  for (const Array& array : arrays) {
    if (pointers.size() < layout_.size()) check_array(pointers.size(), b, array);
    pointers.push_back(array.data());
  }
  return pointers;
}

std::vector<void*> Binding::check_gradients(std::span<const Array> arrays) const {
  if (gradient_ < 0) {
    throw Error(ErrorKind::bind, fmt::format("step @{} has no gradient buffer", program_.name));
  }
  if (arrays.size() != layout_.size()) {
    throw Error(
        ErrorKind::bind,
        fmt::format(
            "gradients(): expected {}, one per tensor of the layout; got {}. An empty Array "
            "stands for a tensor without a gradient",
            count_words(layout_.size(), "array"), arrays.size()));
  }
  const Buffer& buffer = program_.buffers[static_cast<size_t>(gradient_)];
  std::vector<void*> pointers = checked(buffer.name, arrays);
  for (size_t t = 0; t < pointers.size(); ++t) {
    if (pointers[t] == nullptr) continue;
    check_pointer(range(t, static_cast<size_t>(gradient_), pointers[t]), pointers[t]);
  }
  return pointers;
}

bool Binding::bind(std::string_view buffer, std::span<void* const> pointers) {
  int slot = find(buffer);
  if (slot == gradient_) {
    throw Error(ErrorKind::bind, fmt::format("@{} is given to run(), not bound", buffer));
  }
  if (pointers.size() != layout_.size()) {
    throw Error(ErrorKind::bind, fmt::format("@{} is bound to {}; the layout has {}", buffer,
                                             count_words(pointers.size(), "array"),
                                             count_words(layout_.size(), "tensor")));
  }
  auto b = static_cast<size_t>(slot);
  for (size_t t = 0; t < pointers.size(); ++t) check_pointer(range(t, b, pointers[t]), pointers[t]);
  bool changed = differs(slot, pointers);
  for (size_t t = 0; t < pointers.size(); ++t) tables_.pointer(t, b) = pointers[t];
  bound_[b] = true;
  complete_ = false;
  return changed;
}

bool Binding::differs(int buffer, std::span<void* const> pointers) const {
  if (buffer < 0 || pointers.size() != layout_.size()) return false;
  for (size_t t = 0; t < pointers.size(); ++t) {
    if (pointers[t] != tables_.pointer(t, static_cast<size_t>(buffer))) return true;
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
  gradients_checked_ = false;
}

// Finds tensors that were given twice, with all arrays identical; the step updates them once. Several
// tensors may share arrays that the step only reads, so that alone does not make them one tensor.
void Binding::find_duplicates() {
  std::fill(duplicate_of_.begin(), duplicate_of_.end(), kNoDuplicate);
  duplicates_.clear();
  bool writes = false;
  for (size_t b = 0; b < bound_.size(); ++b) {
    writes = writes || (static_cast<int>(b) != gradient_ && is_written(b));
  }
  std::map<std::vector<void*>, uint32_t> seen;
  for (size_t t = 0; t < layout_.size() && writes; ++t) {
    if (layout_.tensors()[t].elements == 0) continue;
    std::vector<void*> arrays;
    bool has_results = false;
    for (size_t b = 0; b < bound_.size(); ++b) {
      if (static_cast<int>(b) == gradient_) continue;
      arrays.push_back(tables_.pointer(t, b));
      has_results = has_results || (is_written(b) && arrays.back() != nullptr);
    }
    if (!has_results) continue;  // tensors that lack all of the step's arrays have none in common
    auto [it, inserted] = seen.emplace(std::move(arrays), static_cast<uint32_t>(t));
    bool same_size = layout_.tensors()[it->second].elements == layout_.tensors()[t].elements;
    if (inserted || !same_size) continue;
    check_same(it->second, t);
    duplicate_of_[t] = it->second;
    duplicates_.push_back(static_cast<uint32_t>(t));
  }
  for (size_t t = 0; t < layout_.size(); ++t) set_present(t);
}

// Throws if the two tensors differ in anything else, because the first one stands for both.
void Binding::check_same(size_t first, size_t second) const {
  const TensorSpec& a = layout_.tensors()[first];
  const TensorSpec& b = layout_.tensors()[second];
  bool same_types = true;
  for (size_t buffer = 0; buffer < bound_.size(); ++buffer) {
    same_types = same_types && tables_.dtype(first, buffer) == tables_.dtype(second, buffer);
  }
  const char* what = !same_types                              ? "storage types"
                     : a.group != b.group                     ? "groups"
                     : a.offset != b.offset                   ? "offsets"
                     : a.element_count() != b.element_count() ? "full sizes"
                     : a.column_count() != b.column_count()   ? "columns"
                     : a.counted != b.counted                 ? "'counted'"
                     : a.updated != b.updated                 ? "'updated'"
                                                              : nullptr;
  if (what == nullptr) return;
  throw Error(ErrorKind::bind,
              fmt::format("tensors {} '{}' and {} '{}' are the same arrays, but their {} differ: "
                          "lay out tied tensors alike, or leave one of them out",
                          first, a.name.substr(0, 80), second, b.name.substr(0, 80), what));
}

void Binding::check_overlaps() {
  written_.clear();
  read_.clear();
  for (size_t t = 0; t < layout_.size(); ++t) {
    if (layout_.tensors()[t].elements == 0 || duplicate_of_[t] != kNoDuplicate) continue;
    for (size_t b = 0; b < bound_.size(); ++b) {
      if (static_cast<int>(b) == gradient_ || is_absent(t, b)) continue;
      (is_written(b) ? written_ : read_).push_back(range(t, b, tables_.pointer(t, b)));
    }
  }
  auto by_address = [](const Range& a, const Range& b) { return a.begin < b.begin; };
  std::sort(written_.begin(), written_.end(), by_address);
  std::sort(read_.begin(), read_.end(), by_address);
  for (size_t i = 1; i < written_.size(); ++i) {
    if (written_[i].begin < written_[i - 1].end) fail_overlap(written_[i], written_[i - 1]);
  }
  for (const Range& r : read_) check_moved_gradient(r, 0);
}

// Checks `r` against the written arrays. These are disjoint and sorted, so one neighbour decides. Returns
// the number of arrays before `r`. It tries `near` first, because allocators put successive gradients side
// by side.
size_t Binding::check_moved_gradient(const Range& r, size_t near) const {
  bool found = (near == 0 || written_[near - 1].begin < r.end) &&
               (near == written_.size() || written_[near].begin >= r.end);
  if (!found) {
    auto it = std::lower_bound(written_.begin(), written_.end(), r.end,
                               [](const Range& w, uintptr_t end) { return w.begin < end; });
    near = static_cast<size_t>(it - written_.begin());
  }
  if (near != 0 && written_[near - 1].end > r.begin) fail_overlap(r, written_[near - 1]);
  return near;
}

// Gradients that the step writes (zeroes) must not overlap each other or the arrays that it reads.
void Binding::check_gradients_apart() {
  auto g = static_cast<size_t>(gradient_);
  scratch_.clear();
  auto next = moved_.begin();
  for (size_t t = 0; t < layout_.size(); ++t) {
    bool moved = next != moved_.end() && next->tensor == t;
    void* p = moved ? next->pointer : tables_.pointer(t, g);
    if (moved) ++next;
    bool skip =
        p == nullptr || layout_.tensors()[t].elements == 0 || duplicate_of_[t] != kNoDuplicate;
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

void Binding::check_range(size_t first, size_t count) const {
  if (first <= layout_.size() && count <= layout_.size() - first) return;
  throw Error(ErrorKind::bind, fmt::format("{} from tensor {} on were given; the layout has {}",
                                           count_words(count, "gradient"), first,
                                           count_words(layout_.size(), "tensor")));
}

// A tensor given twice has one gradient, which the caller may pass with either of the two.
std::span<void* const> Binding::fold_duplicates(size_t first, std::span<void* const> pointers) {
  if (duplicates_.empty()) return pointers;
  auto g = static_cast<size_t>(gradient_);
  folded_.assign(pointers.begin(), pointers.end());
  for (uint32_t t : duplicates_) {
    if (t < first || t - first >= pointers.size()) continue;
    size_t original = duplicate_of_[t];
    void* p = std::exchange(folded_[t - first], tables_.pointer(t, g));
    if (p == nullptr) continue;
    void* first_given = p;
    if (original >= first) {
      void*& own = folded_[original - first];
      if (own == nullptr) own = p;
      first_given = own;
    } else if (p != tables_.pointer(original, g)) {
      // Only the duplicate is in this call: the original takes over its gradient.
      auto same = [&](const Moved& m) { return m.tensor == original; };
      auto known = std::find_if(moved_.begin(), moved_.end(), same);
      if (known == moved_.end()) known = moved_.insert(known, {static_cast<uint32_t>(original), p});
      first_given = known->pointer;
    }
    if (first_given != p) {
      throw Error(ErrorKind::bind,
                  fmt::format("{} and {} are the same arrays, but their gradients differ",
                              describe(range(t, g, p)), describe(range(original, g, first_given))));
    }
  }
  std::sort(moved_.begin(), moved_.end(),
            [](const Moved& a, const Moved& b) { return a.tensor < b.tensor; });
  return folded_;
}

std::span<const Binding::Moved> Binding::find_moved(size_t first, std::span<void* const> pointers) {
  moved_.clear();
  if (gradient_ < 0) {
    if (pointers.empty()) return {};
    throw Error(
        ErrorKind::bind,
        fmt::format("step @{} has no gradient buffer, but gradients were given", program_.name));
  }
  check_range(first, pointers.size());
  auto g = static_cast<size_t>(gradient_);
  pointers = fold_duplicates(first, pointers);
  for (size_t i = 0; i < pointers.size(); ++i) {
    if (pointers[i] == tables_.pointer(first + i, g)) continue;
    moved_.push_back({static_cast<uint32_t>(first + i), pointers[i]});
  }
  size_t near = 0;
  auto check = [&](size_t tensor, void* pointer) {
    if (pointer == nullptr || layout_.tensors()[tensor].elements == 0) return;
    Range r = range(tensor, g, pointer);
    check_pointer(r, pointer);
    near = check_moved_gradient(r, near);
  };
  for (const Moved& m : moved_) check(m.tensor, m.pointer);
  bool all = pointers.size() == layout_.size();
  if (!gradients_checked_) {
    for (size_t i = 0; i < pointers.size(); ++i) check(first + i, pointers[i]);
  }
  if (is_written(g) && (!moved_.empty() || (all && !gradients_checked_))) check_gradients_apart();
  gradients_checked_ = gradients_checked_ || all;
  return moved_;
}

void Binding::accept_moved() {
  for (const Moved& m : moved_) {
    tables_.pointer(m.tensor, static_cast<size_t>(gradient_)) = m.pointer;
    set_present(m.tensor);
  }
}

}  // namespace stepfuse
