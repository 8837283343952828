// Counts the calls of the fake driver and makes some of them fail; knows names and codes only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/ptx_machine/fake_driver/abi.hpp"

namespace ptx::fake {

class Faults {
 public:
  // Counts the call; a code if it is to fail.
  Result call(const char* name);
  // Counts a kernel; how many instructions it may run before the device is lost.
  std::optional<std::uint64_t> launch();

  void fail(std::string name, std::uint64_t nth, Result code, bool sticky);
  void lose_device(std::uint64_t nth, std::uint64_t instructions, Result code);
  void lose(Result code) { lost_ = code; }
  Result lost() const { return lost_; }
  void hide(std::string name) { hidden_.insert(std::move(name)); }
  bool hidden(std::string_view name) const { return hidden_.contains(name); }

  // "cuMemAlloc_v2:2:2,cuLaunchKernelEx:1:720,lose:3:5000:719,hide:cuGraphLaunch": see README.md.
  void parse(std::string_view text);

  std::uint64_t calls(const char* name) const;
  void reset_calls();
  Result loss_code() const { return loss_code_; }

 private:
  struct Planned {
    std::string name;
    std::uint64_t nth;  // counted down; 0: every call
    Result code;
    bool sticky;
  };

  std::map<std::string, std::uint64_t, std::less<>> counts_;
  std::uint64_t total_ = 0;
  std::vector<Planned> planned_;
  std::set<std::string, std::less<>> hidden_;
  std::uint64_t loss_in_ = 0;
  std::uint64_t loss_instructions_ = 0;
  Result loss_code_ = kLaunchFailed;
  Result lost_ = kSuccess;
};

}  // namespace ptx::fake
