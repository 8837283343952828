// Allocations and the host's copies; knows addresses and bytes, no threads.
#include "tools/ptx_machine/memory.hpp"

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "tools/ptx_machine/error.hpp"

namespace ptx {
namespace {

constexpr std::size_t kSmall = std::size_t{1} << 20;
constexpr u64 kAlignment = 256;
constexpr std::size_t kTile = std::size_t{16} << 20;

void* map_pages(std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return at;
}

// One file of the pattern, mapped again and again: gigabytes of pattern for the price of one tile.
int pattern_file(u8 pattern) {
  static const int file = [&] {
    int made = memfd_create("ptx-fresh-memory", MFD_CLOEXEC);
    if (made < 0) throw std::bad_alloc();
    std::vector<u8> tile(kTile, pattern);
    auto size = static_cast<ssize_t>(kTile);
    if (::write(made, tile.data(), tile.size()) != size) throw std::bad_alloc();
    return made;
  }();
  return file;
}

}  // namespace

LazyPages::LazyPages(std::size_t bytes) {
  if (bytes < kSmall) {
    data_ = std::calloc(bytes + 1, 1);
    if (data_ == nullptr) throw std::bad_alloc();
  } else {
    data_ = map_pages(bytes);
    mapped_ = bytes;
  }
}

LazyPages::LazyPages(std::size_t bytes, u8 pattern) : LazyPages(bytes) {
  if (bytes < kTile) {
    std::memset(data_, pattern, bytes);
    return;
  }
  int file = pattern_file(pattern);
  for (std::size_t at = 0; at < bytes; at += kTile) {
    std::size_t size = std::min(kTile, bytes - at);
    void* tile = mmap(as<char>() + at, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0);
    if (tile == MAP_FAILED) throw std::bad_alloc();
  }
}

LazyPages::~LazyPages() {
  if (mapped_ != 0) {
    munmap(data_, mapped_);
  } else {
    std::free(data_);
  }
}

void LazyPages::swap(LazyPages& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(mapped_, other.mapped_);
}

Memory::Memory() : pages_(1) {}

u64 Memory::allocate(u64 size, std::string name) {
  auto owned = std::make_unique<Allocation>();
  Allocation& a = *owned;
  a.size = size;
  a.name = name.empty() ? fmt::format("allocation of {} bytes", size) : std::move(name);
  a.bytes = LazyPages(size + (process_ ? kAlignment : 0), kFreshByte);
  a.state = LazyPages(size);
  a.cells = LazyPages((size / 4 + 1) * sizeof(Cell));
  a.region = {a.bytes.as<std::byte>(), a.state.as<u8>(), a.cells.as<Cell>()};
  if (process_) {  // the host uses the same address
    a.base = (reinterpret_cast<u64>(a.region.bytes) + kAlignment) & ~(kAlignment - 1);
    a.region.bytes = reinterpret_cast<std::byte*>(a.base);
    std::memset(a.region.state, kWritten, size);  // what the host writes there is not seen
  } else {
    place(&a);
  }
  bytes_in_use_ += size;
  u64 base = a.base;
  allocations_.emplace(base, std::move(owned));
  return base;
}

// One page stays empty in front of every allocation; the odd 256 bytes keep the base from being
// aligned any better than a driver promises.
void Memory::place(Allocation* a) {
  u64 first_page = pages_.size() + 1;
  a->base = kBase + (first_page << kPageBits) + kAlignment;
  u64 last_page = (a->base + std::max<u64>(a->size, 1) - 1 - kBase) >> kPageBits;
  pages_.resize(first_page, nullptr);
  pages_.resize(last_page + 1, a);
}

bool Memory::release(u64 base) {
  auto at = allocations_.find(base);
  if (at == allocations_.end() || at->second->host) return false;
  for (u64 page = (base - kBase) >> kPageBits; page < pages_.size(); ++page) {
    if (pages_[page] != at->second.get()) break;
    pages_[page] = nullptr;
  }
  bytes_in_use_ -= at->second->size;
  allocations_.erase(at);
  return true;
}

namespace {

std::unique_ptr<Allocation> host_allocation(void* address, u64 size, std::string name) {
  auto owned = std::make_unique<Allocation>();
  Allocation& a = *owned;
  a.base = reinterpret_cast<u64>(address);
  a.size = size;
  a.name = std::move(name);
  a.host = true;
  a.lead = static_cast<u32>(a.base & 3);
  a.state = LazyPages(size);
  std::memset(a.state.as<u8>(), kWritten, size);  // what the host writes there is not seen
  a.cells = LazyPages((size / 4 + 2) * sizeof(Cell));
  a.region = {static_cast<std::byte*>(address), a.state.as<u8>(), a.cells.as<Cell>()};
  return owned;
}

}  // namespace

void Memory::map_host(void* address, u64 size) {
  allocations_.emplace(
      reinterpret_cast<u64>(address),
      host_allocation(address, size, fmt::format("host memory of {} bytes", size)));
}

bool Memory::unmap_host(void* address) {
  return allocations_.erase(reinterpret_cast<u64>(address)) != 0;
}

Allocation* Memory::find_host(u64 address) {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  Allocation& a = *std::prev(after)->second;
  return address - a.base < a.size ? &a : nullptr;
}

Allocation* Memory::find_page(u64 address) {
  static const auto page_bytes = static_cast<u64>(sysconf(_SC_PAGESIZE));
  u64 base = address & ~(page_bytes - 1);
  auto at = process_pages_.find(base);
  if (at == process_pages_.end()) {
    void* page = reinterpret_cast<void*>(base);
    if (msync(page, page_bytes, MS_ASYNC) != 0) return nullptr;  // nothing is mapped there
    at = process_pages_.emplace(base, host_allocation(page, page_bytes, "a page of the process"))
             .first;
  }
  return at->second.get();
}

const Allocation* Memory::find_base(u64 base) const {
  auto at = allocations_.find(base);
  return at == allocations_.end() ? nullptr : at->second.get();
}

std::string Memory::describe(u64 address) const {
  auto after = allocations_.upper_bound(address);
  if (after != allocations_.begin()) {
    const Allocation& a = *std::prev(after)->second;
    u64 offset = address - a.base;
    if (offset < a.size) return fmt::format("byte {} of {}", offset, a.name);
    if (offset < a.size + (1 << kPageBits)) {
      return fmt::format("{} bytes behind the end of {}", offset - a.size, a.name);
    }
  }
  if (after != allocations_.end() && after->first - address < (1 << kPageBits)) {
    return fmt::format("{} bytes before {}", after->first - address, after->second->name);
  }
  return "in no allocation";
}

Allocation& Memory::span(u64 address, u64 size, const char* what) {
  Allocation* a = find(address);
  if (a == nullptr || address - a->base > a->size || size > a->size - (address - a->base)) {
    throw MachineError(ErrorKind::out_of_bounds, fmt::format("{} of {} bytes at {:#x}, {}", what,
                                                             size, address, describe(address)));
  }
  return *a;
}

void Memory::write(u64 to, const void* from, u64 size) {
  if (size == 0) return;
  Allocation& a = span(to, size, "copy from the host");
  u64 at = to - a.base;
  std::memcpy(a.region.bytes + at, from, size);
  std::memset(a.region.state + at, kWritten, size);
}

void Memory::read(void* to, u64 from, u64 size) {
  if (size == 0) return;
  Allocation& a = span(from, size, "copy to the host");
  std::memcpy(to, a.region.bytes + (from - a.base), size);
}

void Memory::copy(u64 to, u64 from, u64 size) {
  if (size == 0) return;
  Allocation& source = span(from, size, "copy");
  Allocation& target = span(to, size, "copy");
  std::memmove(target.region.bytes + (to - target.base), source.region.bytes + (from - source.base),
               size);
  std::memmove(target.region.state + (to - target.base), source.region.state + (from - source.base),
               size);
}

void Memory::fill(u64 to, u64 count, u64 pattern, u32 pattern_bytes) {
  if (count == 0) return;
  Allocation& a = span(to, count * pattern_bytes, "fill");
  u64 at = to - a.base;
  for (u64 i = 0; i < count; ++i) {
    std::memcpy(a.region.bytes + at + i * pattern_bytes, &pattern, pattern_bytes);
  }
  std::memset(a.region.state + at, kWritten, count * pattern_bytes);
}

void Memory::forget(u64 to, u64 size) {
  if (size == 0) return;
  Allocation& a = span(to, size, "forgetting");
  std::memset(a.region.state + (to - a.base), 0, size);
}

}  // namespace ptx
