// Lines of 32 bytes with a bit per byte that is not yet where others see it; knows memory.
#include "tools/ptx_machine/caches.hpp"

namespace ptx {

namespace {

// The bytes of the line that lie in the allocation: [first, last).
std::pair<u64, u64> inside(const Allocation& a, u64 key, u32 line) {
  u64 begin = key * line;
  return {std::max(begin, a.base) - begin, std::min(begin + line, a.base + a.size) - begin};
}

}  // namespace

// Bytes that the line has stored itself stay.
void Caches::fill(Line& line, u64 key) const {
  auto [first, last] = inside(*line.a, key, kLine);
  auto above = device_.lines.find(key);
  for (u64 k = first; k < last; ++k) {
    if ((line.dirty >> k & 1u) != 0) continue;
    bool newer = above != device_.lines.end() && (above->second.dirty >> k & 1u) != 0;
    u64 at = key * kLine + k - line.a->base;
    line.bytes[k] = newer ? above->second.bytes[k] : line.a->region.bytes[at];
    line.state[k] = newer ? above->second.state[k] : line.a->region.state[at];
  }
}

void Caches::copy_dirty(u64 key, Line& from, Line* to, u32 which) {
  for (u32 rest = from.dirty & which; rest != 0; rest &= rest - 1) {
    auto k = static_cast<u32>(std::countr_zero(rest));
    if (to != nullptr) {
      to->bytes[k] = from.bytes[k];
      to->state[k] = from.state[k];
      to->dirty |= 1u << k;
    } else {
      u64 at = key * kLine + k - from.a->base;
      from.a->region.bytes[at] = from.bytes[k];
      from.a->region.state[at] = from.state[k];
    }
  }
  from.dirty &= ~which;
}

void Caches::some_arrives(u32 block) {
  auto some_line = [&](Cache& cache) -> std::pair<const u64, Line>* {
    if (cache.dirty.empty()) return nullptr;
    auto k = random_.below(static_cast<u32>(cache.dirty.size()));
    auto line = cache.lines.find(cache.dirty[k]);
    if (line != cache.lines.end() && line->second.dirty != 0) return &*line;
    cache.dirty[k] = cache.dirty.back();
    cache.dirty.pop_back();
    return nullptr;
  };
  if (auto* own = some_line(blocks_[block])) drain(own->first, own->second, false, some_word());
  if (auto* last = some_line(device_)) copy_dirty(last->first, last->second, nullptr, some_word());
}

void Caches::drain(u64 key, Line& line, bool to_host, u32 which) {
  if (!line.a->host) return copy_dirty(key, line, nullptr, which);
  Line& above = device_.lines[key];
  above.a = line.a;
  if (above.dirty == 0) device_.dirty.push_back(key);
  copy_dirty(key, line, &above, which);
  if (to_host) copy_dirty(key, above, nullptr);
}

Region Caches::access(u32 block, Allocation& a, u64 address, u32 bytes, bool writes, bool atomic) {
  Cache& cache = blocks_[block];
  if (random_.below(4) == 0) some_arrives(block);
  u64 key = address / kLine;
  if (atomic) {
    if (auto at = cache.lines.find(key); at != cache.lines.end()) {
      drain(key, at->second, true);
      cache.lines.erase(at);
    }
    return {a.region.bytes + (address - a.base), a.region.state + (address - a.base), nullptr};
  }
  auto [at, is_new] = cache.lines.try_emplace(key);
  Line& line = at->second;
  line.a = &a;
  if (is_new || random_.below(4) == 0) fill(line, key);
  u64 k = address % kLine;
  if (writes && line.dirty == 0) cache.dirty.push_back(key);
  if (writes) line.dirty |= static_cast<u32>(((u64{1} << bytes) - 1) << k);
  return {line.bytes.data() + k, line.state.data() + k, nullptr};
}

void Caches::release(u32 block, Scope scope) {
  if (scope == Scope::cta) return;
  auto each_dirty = [](Cache& cache, auto&& each) {
    for (u64 key : cache.dirty) {
      if (auto line = cache.lines.find(key); line != cache.lines.end()) each(key, line->second);
    }
    cache.dirty.clear();
  };
  each_dirty(blocks_[block], [&](u64 key, Line& l) { drain(key, l, scope == Scope::sys); });
  if (scope != Scope::sys) return;
  each_dirty(device_, [](u64 key, Line& line) { copy_dirty(key, line, nullptr); });
}

void Caches::acquire(u32 block) {
  auto& lines = blocks_[block].lines;
  for (auto at = lines.begin(); at != lines.end();) {
    if (at->second.dirty == 0) {
      at = lines.erase(at);
    } else {
      fill(at->second, at->first);
      ++at;
    }
  }
}

bool Caches::settle() {
  bool any = false;
  for (Cache& cache : blocks_) {
    for (auto& [key, line] : cache.lines) {
      any = any || line.dirty != 0;
      drain(key, line, true);
    }
    cache = {};
  }
  for (auto& [key, line] : device_.lines) {
    any = any || line.dirty != 0;
    copy_dirty(key, line, nullptr);
  }
  device_ = {};
  return any;
}

}  // namespace ptx
