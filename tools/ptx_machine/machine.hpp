// The machine's interface: memory, modules from PTX, launches. Knows everything below it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/ptx_machine/error.hpp"
#include "tools/ptx_machine/launch.hpp"

namespace ptx {

class Module {
 public:
  const Kernel* find(std::string_view name) const;
  const std::vector<Kernel>& kernels() const { return *kernels_; }
  u32 target() const { return target_; }
  u64 global(std::string_view name, u64* bytes = nullptr) const;  // 0: no such variable

 private:
  friend class Machine;

  struct Global {
    std::string name;
    u64 address;
    u64 bytes;
  };

  u32 target_ = 0;
  std::shared_ptr<const std::vector<Kernel>> kernels_;
  std::vector<Global> globals_;
};

// Not thread-safe: one launch or copy at a time.
class Machine {
 public:
  Memory& memory() { return memory_; }

  // Throws MachineError of the kinds that a text can have.
  std::unique_ptr<Module> load(std::string_view ptx);
  void unload(const Module& module);

  // Runs the grid to its end. Throws MachineError of the kinds that an execution can have; memory
  // then holds what had been stored so far.
  Counters launch(const Kernel& kernel, const LaunchShape& shape, std::span<const std::byte> params,
                  const LaunchOptions& options = {});

 private:
  Memory memory_;
  RaceDetector races_;
};

}  // namespace ptx
