// Compiled variants of this process by key: compiled once, whoever asks. Knows only std.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace stepfuse {

// `Kernel` is a loaded kernel. Concurrent requests for one key compile once, outside the lock; a
// failure reaches all that wait for it and is then forgotten, so that the next request tries again.
template <class Kernel>
class VariantCache {
 public:
  using Pointer = std::shared_ptr<const Kernel>;

  Pointer get(const std::string& key, const std::function<Pointer()>& compile, bool* hit) {
    std::promise<Pointer> promise;
    std::shared_future<Pointer> future;
    bool mine = false;
    {
      std::lock_guard lock(mutex_);
      auto [it, inserted] = entries_.try_emplace(key);
      mine = inserted;
      if (mine) it->second = promise.get_future().share();
      future = it->second;
    }
    *hit = !mine;
    if (!mine) {
      ++hits_;
      return future.get();
    }
    try {
      promise.set_value(compile());
      ++compiled_;
    } catch (...) {
      {
        std::lock_guard lock(mutex_);
        entries_.erase(key);
      }
      promise.set_exception(std::current_exception());
    }
    return future.get();
  }

  uint64_t compiled() const { return compiled_; }
  uint64_t hits() const { return hits_; }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_future<Pointer>> entries_;
  std::atomic<uint64_t> compiled_{0};
  std::atomic<uint64_t> hits_{0};
};

}  // namespace stepfuse
