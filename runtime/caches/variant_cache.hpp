// Compiled variants of this process by key. Each is compiled once. Knows only std.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace stepfuse {

// `Kernel` is a loaded kernel. Concurrent requests for one key compile once, outside the lock. A failure
// reaches all requests that wait for it and is then forgotten, so that the next request tries again. The
// `most` variants used last stay loaded; older ones are unloaded when nobody uses them any more.
template <class Kernel>
class VariantCache {
 public:
  using Pointer = std::shared_ptr<const Kernel>;

  explicit VariantCache(size_t most = ~size_t{0}) : most_(most) {}

  Pointer get(const std::string& key, const std::function<Pointer()>& compile, bool* hit) {
    std::promise<Pointer> promise;
    std::shared_future<Pointer> pending;
    Pointer oldest;  // unloaded outside the lock
    {
      std::lock_guard lock(mutex_);
      auto it = entries_.try_emplace(key).first;
      Entry& e = it->second;
      Pointer loaded = e.loaded.lock();
      *hit = loaded || e.pending.valid();
      if (*hit) ++hits_;
      if (loaded) {
        oldest = keep(it->first, e, loaded);
        return loaded;
      }
      if (!*hit) e.pending = promise.get_future().share();
      pending = e.pending;
    }
    if (!*hit) compile_into(promise, key, compile);
    return pending.get();
  }

  uint64_t compiled() const { return compiled_; }
  uint64_t hits() const { return hits_; }
  // Returns the number of keys that have an entry.
  size_t known() const {
    std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  struct Entry {
    std::shared_future<Pointer> pending;  // valid while somebody compiles the variant
    std::weak_ptr<const Kernel> loaded;
    Pointer kept;                                              // set while the variant is new
    typename std::list<const std::string*>::iterator place{};  // position in newest_, if kept
  };

  void compile_into(std::promise<Pointer>& promise, const std::string& key,
                    const std::function<Pointer()>& compile) {
    try {
      Pointer made = compile();
      Pointer oldest;
      {
        std::lock_guard lock(mutex_);
        auto it = entries_.find(key);
        it->second.pending = {};
        it->second.loaded = made;
        oldest = keep(it->first, it->second, made);
      }
      ++compiled_;
      promise.set_value(std::move(made));
    } catch (...) {
      {
        std::lock_guard lock(mutex_);
        entries_.erase(key);
      }
      promise.set_exception(std::current_exception());
    }
  }

  // Moves the variant to the front; returns the variant that no longer fits, if any.
  Pointer keep(const std::string& key, Entry& e, const Pointer& loaded) {
    if (e.kept) {
      newest_.splice(newest_.begin(), newest_, e.place);
      return nullptr;
    }
    e.place = newest_.insert(newest_.begin(), &key);
    e.kept = loaded;
    if (newest_.size() <= most_) return nullptr;
    Pointer oldest = std::move(entries_.find(*newest_.back())->second.kept);
    newest_.pop_back();
    // Now and then, remove the keys of variants that nobody uses any more.
    if (entries_.size() / 2 > most_) {
      std::erase_if(entries_, [](const auto& entry) {
        const Entry& e = entry.second;
        return !e.kept && !e.pending.valid() && e.loaded.expired();
      });
    }
    return oldest;
  }

  size_t most_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::list<const std::string*> newest_;
  std::atomic<uint64_t> compiled_{0};
  std::atomic<uint64_t> hits_{0};
};

}  // namespace stepfuse
