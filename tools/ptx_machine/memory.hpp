// Device memory: allocations with their bytes, write flags and race cells.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/ptx_machine/race.hpp"

namespace ptx {

// Zeroed pages that cost nothing until they are touched. They make the shadow of a huge, sparsely
// used allocation affordable.
class LazyPages {
 public:
  LazyPages() = default;
  explicit LazyPages(std::size_t bytes);
  // Initialises every page with repetitions of `pattern`.
  LazyPages(std::size_t bytes, u8 pattern);
  LazyPages(LazyPages&& other) noexcept { swap(other); }
  LazyPages& operator=(LazyPages&& other) noexcept {
    swap(other);
    return *this;
  }
  ~LazyPages();

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void swap(LazyPages& other) noexcept;

  void* data_ = nullptr;
  std::size_t mapped_ = 0;  // 0: from calloc
};

inline constexpr u8 kFreshByte = 0xA5;  // content of fresh memory
inline constexpr u8 kWritten = 1;       // state bit: the byte was written
inline constexpr u8 kGap = 2;           // state bit: the byte is between two variables

// A run of bytes with their shadow.
struct Region {
  std::byte* bytes = nullptr;
  u8* state = nullptr;
  Cell* cells = nullptr;
};

struct Allocation {
  u64 base = 0;
  u64 size = 0;
  std::string name;
  bool read_only = false;
  bool host = false;     // in host memory
  bool watched = false;  // the host reads this allocation, so a turn ends after an access
  Region region;         // of `base`; for mapped host memory, from the word that contains `base`
  u32 lead = 0;          // bytes from the first cell to `base`
  LazyPages bytes, state, cells;
};

class Memory {
 public:
  Memory();

  // Device addresses overlap no host addresses, are aligned to 256 bytes and no more, and are never
  // reused. No two allocations are adjacent.
  u64 allocate(u64 size, std::string name = "");
  bool release(u64 base);  // false: no allocation begins there
  // Maps host memory that kernels may access by its host address.
  void map_host(void* address, u64 size);
  bool unmap_host(void* address);
  // From now on, host and kernels may access all of each other's memory, as on devices with
  // pageable memory access. Bounds are then known only for allocations made here.
  void map_process() { process_ = true; }

  Allocation* find(u64 address) {
    u64 page = (address - kBase) >> kPageBits;
    if (page < pages_.size()) return pages_[page];
    return find_host(address);
  }
  // Finds the allocation for a kernel's access, or with map_process() the page of the process.
  Allocation* reach(u64 address) {
    Allocation* a = find(address);
    return a != nullptr || !process_ ? a : find_page(address);
  }
  const Allocation* find_base(u64 base) const;
  std::string describe(u64 address) const;
  u64 bytes_in_use() const { return bytes_in_use_; }

  // Copies by the host; each throws out_of_bounds.
  void write(u64 to, const void* from, u64 size);
  void read(void* to, u64 from, u64 size);
  void copy(u64 to, u64 from, u64 size);
  void fill(u64 to, u64 count, u64 pattern, u32 pattern_bytes);
  // Keeps the bytes, but marks them as never written.
  void forget(u64 to, u64 size);

 private:
  static constexpr u64 kBase = 0x7000'0000'0000;
  static constexpr u32 kPageBits = 16;

  Allocation* find_host(u64 address);
  Allocation* find_page(u64 address);
  void place(Allocation* allocation);
  Allocation& span(u64 address, u64 size, const char* what);

  std::vector<Allocation*> pages_;
  std::map<u64, std::unique_ptr<Allocation>> allocations_;
  std::map<u64, std::unique_ptr<Allocation>> process_pages_;  // pages that kernels touched
  bool process_ = false;
  u64 bytes_in_use_ = 0;
};

}  // namespace ptx
