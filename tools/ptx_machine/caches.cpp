// Lines of 32 bytes with a bit per byte that is not yet where others see it; knows memory.
#include "tools/ptx_machine/caches.hpp"

#include <cstring>

namespace ptx {

namespace {

// The bytes of the line that lie in the allocation: [first, last).
std::pair<u64, u64> inside(const Allocation& a, u64 key, u32 line) {
  u64 begin = key * line;
  return {std::max(begin, a.base) - begin, std::min(begin + line, a.base + a.size) - begin};
}

}  // namespace

u32 Caches::Lines::slot_of(u64 key) const {
  const auto mask = static_cast<u32>(slots_.size() - 1);
  auto slot = static_cast<u32>(key * 0x9E37'79B9'7F4A'7C15u >> 32) & mask;
  while (slots_[slot] != 0 && lines_[slots_[slot] - 1].key != key) slot = (slot + 1) & mask;
  return slot;
}

void Caches::Lines::index_again() {
  slots_.assign(std::bit_ceil(std::max<size_t>(64, 4 * (lines_.size() - free_.size()))), 0);
  for (u32 k = 0; k < lines_.size(); ++k) {
    if (lines_[k].a != nullptr) slots_[slot_of(lines_[k].key)] = k + 1;
  }
}

Caches::Line* Caches::Lines::find(u64 key) {
  if (slots_.empty()) return nullptr;
  u32 index = slots_[slot_of(key)];
  return index != 0 ? &lines_[index - 1] : nullptr;
}

Caches::Line& Caches::Lines::at(u64 key, bool* is_new) {
  if (2 * (lines_.size() - free_.size() + 1) > slots_.size()) index_again();
  u32& index = slots_[slot_of(key)];
  *is_new = index == 0;
  if (index != 0) return lines_[index - 1];
  if (free_.empty()) {
    lines_.emplace_back();
    index = static_cast<u32>(lines_.size());
  } else {
    index = free_.back() + 1;
    free_.pop_back();
  }
  Line& line = lines_[index - 1];
  line.key = key;
  line.dirty = 0;
  return line;
}

template <class Keep>
void Caches::Lines::keep_if(Keep keep) {
  for (u32 k = 0; k < lines_.size(); ++k) {
    if (lines_[k].a == nullptr || keep(lines_[k])) continue;
    lines_[k].a = nullptr;
    free_.push_back(k);
  }
  if (!lines_.empty()) index_again();
}

template <class Each>
void Caches::Lines::each(Each each_line) {
  for (Line& line : lines_) {
    if (line.a != nullptr) each_line(line);
  }
}

// Bytes that the line has stored itself stay.
void Caches::fill(Line& line) {
  auto [first, last] = inside(*line.a, line.key, kLine);
  const u64 from =
      line.key * kLine - line.a->base;  // modulo 2^64: a line may begin before its allocation
  const Line* above = line.a->host ? device_.lines.find(line.key) : nullptr;
  if (line.dirty == 0 && above == nullptr) {
    std::memcpy(&line.bytes[first], line.a->region.bytes + (from + first), last - first);
    std::memcpy(&line.state[first], line.a->region.state + (from + first), last - first);
    return;
  }
  for (u64 k = first; k < last; ++k) {
    if ((line.dirty >> k & 1u) != 0) continue;
    bool newer = above != nullptr && (above->dirty >> k & 1u) != 0;
    line.bytes[k] = newer ? above->bytes[k] : line.a->region.bytes[from + k];
    line.state[k] = newer ? above->state[k] : line.a->region.state[from + k];
  }
}

void Caches::copy_dirty(Line& from, Line* to, u32 which) {
  for (u32 rest = from.dirty & which; rest != 0; rest &= rest - 1) {
    auto k = static_cast<u32>(std::countr_zero(rest));
    if (to != nullptr) {
      to->bytes[k] = from.bytes[k];
      to->state[k] = from.state[k];
      to->dirty |= 1u << k;
    } else {
      u64 at = from.key * kLine + k - from.a->base;
      from.a->region.bytes[at] = from.bytes[k];
      from.a->region.state[at] = from.state[k];
    }
  }
  from.dirty &= ~which;
}

void Caches::some_arrives(u32 block) {
  auto some_line = [&](Cache& cache) -> Line* {
    if (cache.dirty.empty()) return nullptr;
    auto k = random_.below(static_cast<u32>(cache.dirty.size()));
    Line* line = cache.lines.find(cache.dirty[k]);
    if (line != nullptr && line->dirty != 0) return line;
    cache.dirty[k] = cache.dirty.back();
    cache.dirty.pop_back();
    return nullptr;
  };
  if (Line* own = some_line(blocks_[block])) drain(*own, false, some_word());
  if (Line* last = some_line(device_)) copy_dirty(*last, nullptr, some_word());
}

void Caches::drain(Line& line, bool to_host, u32 which) {
  if (!line.a->host) return copy_dirty(line, nullptr, which);
  bool is_new = false;
  Line& above = device_.lines.at(line.key, &is_new);
  above.a = line.a;
  if (above.dirty == 0) device_.dirty.push_back(line.key);
  copy_dirty(line, &above, which);
  if (to_host) copy_dirty(above, nullptr);
}

Region Caches::access(u32 block, Allocation& a, u64 address, u32 bytes, bool writes, bool atomic) {
  Cache& cache = blocks_[block];
  if (random_.below(4) == 0) some_arrives(block);
  u64 key = address / kLine;
  if (atomic) {
    if (Line* line = cache.lines.find(key)) {
      drain(*line, true);
      cache.lines.keep_if([key](const Line& l) { return l.key != key; });
    }
    return {a.region.bytes + (address - a.base), a.region.state + (address - a.base), nullptr};
  }
  bool is_new = false;
  Line& line = cache.lines.at(key, &is_new);
  line.a = &a;
  if (is_new || random_.below(4) == 0) fill(line);
  u64 k = address % kLine;
  if (writes && line.dirty == 0) cache.dirty.push_back(key);
  if (writes) line.dirty |= static_cast<u32>(((u64{1} << bytes) - 1) << k);
  return {line.bytes.data() + k, line.state.data() + k, nullptr};
}

void Caches::release(u32 block, Scope scope) {
  if (scope == Scope::cta) return;
  auto each_dirty = [](Cache& cache, auto&& each) {
    for (u64 key : cache.dirty) {
      if (Line* line = cache.lines.find(key)) each(*line);
    }
    cache.dirty.clear();
  };
  each_dirty(blocks_[block], [&](Line& line) { drain(line, scope == Scope::sys); });
  if (scope != Scope::sys) return;
  each_dirty(device_, [](Line& line) { copy_dirty(line, nullptr); });
}

void Caches::acquire(u32 block) {
  Lines& lines = blocks_[block].lines;
  lines.keep_if([](const Line& line) { return line.dirty != 0; });
  lines.each([this](Line& line) { fill(line); });
}

bool Caches::settle() {
  bool any = false;
  for (Cache& cache : blocks_) {
    cache.lines.each([&](Line& line) {
      any = any || line.dirty != 0;
      drain(line, true);
    });
    cache = {};
  }
  device_.lines.each([&](Line& line) {
    any = any || line.dirty != 0;
    copy_dirty(line, nullptr);
  });
  device_ = {};
  return any;
}

}  // namespace ptx
