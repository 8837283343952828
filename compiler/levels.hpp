// Code outside of bodies: one list per granularity that has any, coarse to fine. Knows ir's granularities.
#pragma once

#include <algorithm>
#include <vector>

#include <stepfuse/granularity.hpp>

namespace stepfuse {

template <class T>
struct Level {
  Granularity at;
  std::vector<T> code;
  friend bool operator==(const Level&, const Level&) = default;
};

// No Levels has both rows and columns, so each list may use the values of the lists before it.
template <class T>
class Levels {
 public:
  // Appends to the list of a granularity.
  void add(Granularity at, T item) { list_of(at).push_back(std::move(item)); }
  // Replaces the list of a granularity. An empty list is removed.
  void set(Granularity at, std::vector<T> code) {
    list_of(at) = std::move(code);
    std::erase_if(all_, [](const Level<T>& level) { return level.code.empty(); });
  }
  // Returns the list of a granularity, which may be empty.
  const std::vector<T>& of(Granularity at) const {
    static const std::vector<T> kNone;
    auto it = std::find_if(all_.begin(), all_.end(), [&](const Level<T>& l) { return l.at == at; });
    return it == all_.end() ? kNone : it->code;
  }
  bool has(Granularity at) const { return !of(at).empty(); }
  // Iterates over the lists that are not empty.
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  friend bool operator==(const Levels&, const Levels&) = default;

 private:
  std::vector<T>& list_of(Granularity at) {
    auto it = std::find_if(all_.begin(), all_.end(),
                           [&](const Level<T>& l) { return number_of(l.at) >= number_of(at); });
    if (it == all_.end() || it->at != at) it = all_.insert(it, Level<T>{at, {}});
    return it->code;
  }
  std::vector<Level<T>> all_;
};

}  // namespace stepfuse
