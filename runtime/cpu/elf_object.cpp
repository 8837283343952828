// Places sections, applies relocations, protects pages. Knows the ELF format and the system's memory.
#include "runtime/cpu/elf_object.hpp"

#include <cstring>
#include <elf.h>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "runtime/cpu/relocations.hpp"

namespace stepfuse {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#else
constexpr uint16_t kMachine = EM_AARCH64;
#endif
constexpr uint64_t kMost = uint64_t{1} << 30;  // a kernel has a few pages; also keeps sums in range

size_t align_up(size_t n, size_t alignment) { return (n + alignment - 1) / alignment * alignment; }

// Reads from the bytes and checks each read against their end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  std::optional<T> at(uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  bool has(uint64_t offset, uint64_t count) const {
    return offset <= bytes_.size() && count <= bytes_.size() - offset;
  }
  std::optional<std::string> text(uint64_t offset) const {
    size_t end = offset < bytes_.size() ? bytes_.find('\0', offset) : std::string_view::npos;
    if (end == std::string_view::npos) return std::nullopt;
    return std::string(bytes_.substr(offset, end - offset));
  }
  const char* data(uint64_t offset) const { return bytes_.data() + offset; }

 private:
  std::string_view bytes_;
};

class Placement {
 public:
  explicit Placement(std::string_view bytes) : in_(bytes) {}

  // Decides which sections are mapped. Returns false if this is not one of our objects.
  bool plan() {
    auto header = in_.at<Elf64_Ehdr>(0);
    bool ours = header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
                header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_type == ET_REL &&
                header->e_machine == kMachine && header->e_shentsize == sizeof(Elf64_Shdr);
    if (!ours) return false;
    for (size_t i = 0; i < header->e_shnum; ++i) {
      auto section = in_.at<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr));
      if (!section) return false;
      sections_.push_back(*section);
    }
    places_.assign(sections_.size(), kNowhere);
    return place(false) && place(true) && find_symbols();
  }

  size_t bytes() const { return end_; }
  size_t code_begin() const { return code_begin_; }

  bool write(char* memory) const {
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (places_[i] == kNowhere) continue;
      std::memcpy(memory + places_[i], in_.data(sections_[i].sh_offset), sections_[i].sh_size);
    }
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type == SHT_REL) return false;
      if (s.sh_type == SHT_RELA && !relocate(s, memory)) return false;
    }
    return true;
  }

  bool is_function(const Elf64_Sym& symbol) const {
    if (symbol.st_shndx >= sections_.size()) return false;
    const Elf64_Shdr& home = sections_[symbol.st_shndx];
    return ELF64_ST_BIND(symbol.st_info) != STB_LOCAL && (home.sh_flags & SHF_EXECINSTR) != 0 &&
           symbol.st_value < home.sh_size && symbol.st_size <= home.sh_size - symbol.st_value;
  }
  // Returns null if the symbol is not defined here.
  char* address(const Elf64_Sym& symbol, char* memory) const {
    if (symbol.st_shndx >= places_.size() || places_[symbol.st_shndx] == kNowhere) return nullptr;
    if (symbol.st_value > sections_[symbol.st_shndx].sh_size) return nullptr;
    return memory + places_[symbol.st_shndx] + symbol.st_value;
  }
  const std::vector<Elf64_Sym>& symbols() const { return symbols_; }
  std::optional<std::string> name(const Elf64_Sym& s) const { return in_.text(names_ + s.st_name); }

 private:
  static constexpr size_t kNowhere = ~size_t{0};

  // Places constants first and code on a page of its own.
  bool place(bool code) {
    auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    if (code) code_begin_ = end_ = align_up(end_, page);
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Elf64_Shdr& s = sections_[i];
      if ((s.sh_flags & SHF_ALLOC) == 0 || ((s.sh_flags & SHF_EXECINSTR) != 0) != code) continue;
      // None of our sections is writable, zero-initialised or thread-local.
      bool plain = s.sh_type == SHT_PROGBITS && (s.sh_flags & (SHF_WRITE | SHF_TLS)) == 0;
      if (!plain || s.sh_size > kMost || !in_.has(s.sh_offset, s.sh_size)) return false;
      if (s.sh_addralign > page) return false;
      places_[i] = align_up(end_, s.sh_addralign == 0 ? 1 : s.sh_addralign);
      end_ = places_[i] + s.sh_size;
      if (end_ > kMost) return false;
    }
    return true;
  }

  bool find_symbols() {
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type != SHT_SYMTAB) continue;
      if (s.sh_link >= sections_.size() || s.sh_size > kMost) return false;
      names_ = sections_[s.sh_link].sh_offset;
      for (uint64_t at = 0; at < s.sh_size; at += sizeof(Elf64_Sym)) {
        auto symbol = in_.at<Elf64_Sym>(s.sh_offset + at);
        if (!symbol) return false;
        symbols_.push_back(*symbol);
      }
    }
    return true;
  }

  bool relocate(const Elf64_Shdr& list, char* memory) const {
    if (list.sh_info >= sections_.size() || list.sh_size > kMost) return false;
    if (places_[list.sh_info] == kNowhere) return true;  // the section is not mapped
    const Elf64_Shdr& target = sections_[list.sh_info];
    char* base = memory + places_[list.sh_info];
    for (uint64_t at = 0; at < list.sh_size; at += sizeof(Elf64_Rela)) {
      auto r = in_.at<Elf64_Rela>(list.sh_offset + at);
      if (!r || ELF64_R_SYM(r->r_info) >= symbols_.size()) return false;
      const char* symbol = address(symbols_[ELF64_R_SYM(r->r_info)], memory);
      auto type = static_cast<uint32_t>(ELF64_R_TYPE(r->r_info));
      size_t width = relocation_bytes(kMachine, type);
      if (symbol == nullptr || width == 0 || target.sh_size < width ||
          r->r_offset > target.sh_size - width) {
        return false;
      }
      int64_t value = 0;
      char* place = base + r->r_offset;
      if (__builtin_add_overflow(reinterpret_cast<intptr_t>(symbol), r->r_addend, &value) ||
          !apply_relocation(kMachine, type, value, reinterpret_cast<intptr_t>(place), place)) {
        return false;
      }
    }
    return true;
  }

  Reader in_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<size_t> places_;  // [section] offset in the mapping
  std::vector<Elf64_Sym> symbols_;
  uint64_t names_ = 0;
  size_t code_begin_ = 0;
  size_t end_ = 0;
};

}  // namespace

std::unique_ptr<ElfObject> ElfObject::load(std::string_view bytes) {
  Placement placement(bytes);
  if (!placement.plan() || placement.bytes() == 0) return nullptr;
  void* memory = ::mmap(nullptr, placement.bytes(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::unique_ptr<ElfObject> object(new ElfObject);
  object->memory_ = static_cast<char*>(memory);
  object->bytes_ = placement.bytes();
  if (!placement.write(object->memory_)) return nullptr;
  for (const Elf64_Sym& s : placement.symbols()) {
    char* address = placement.address(s, object->memory_);
    auto name = placement.name(s);
    if (address == nullptr || !name || !placement.is_function(s)) continue;
    object->functions_[*name] = {address, static_cast<size_t>(s.st_size)};
  }
  // No page is ever writable and executable at the same time.
  size_t code = object->code_ = placement.code_begin();
  bool done = (code == 0 || ::mprotect(object->memory_, code, PROT_READ) == 0) &&
              ::mprotect(object->memory_ + code, object->bytes_ - code, PROT_READ | PROT_EXEC) == 0;
  // AArch64 reads instructions past the data that was written. On x86-64 this does nothing.
  __builtin___clear_cache(object->memory_ + code, object->memory_ + object->bytes_);
  return done ? std::move(object) : nullptr;
}

ElfObject::~ElfObject() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

void* ElfObject::symbol(const std::string& name) const {
  auto it = functions_.find(name);
  return it != functions_.end() ? it->second.address : nullptr;
}

bool ElfObject::is_code(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  return at >= memory_ + code_ && at < memory_ + bytes_;
}

}  // namespace stepfuse
