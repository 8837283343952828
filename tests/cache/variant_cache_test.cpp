// Variants of a process: compiled once however many ask, tried again after a failure, and bounded.
#include "runtime/caches/variant_cache.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace stepfuse;

namespace {

struct Kernel {
  explicit Kernel(std::atomic<int>& living) : count(living) { ++count; }
  ~Kernel() { --count; }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  std::atomic<int>& count;
};

struct Fixture {
  explicit Fixture(size_t most) : cache(most) {}
  std::atomic<int> living{0};
  VariantCache<Kernel> cache;
  bool hit = false;
  std::shared_ptr<const Kernel> get(const std::string& key) {
    return cache.get(key, [&] { return std::make_shared<const Kernel>(living); }, &hit);
  }
};

}  // namespace

TEST_CASE("a variant is compiled once") {
  Fixture f(10);
  auto a = f.get("a");
  CHECK(!f.hit);
  CHECK(f.get("a") == a);
  CHECK(f.hit);
  CHECK(f.get("b") != a);
  CHECK(f.cache.compiled() == 2);
  CHECK(f.cache.hits() == 1);
}

TEST_CASE("variants that nobody uses are bounded; those in use are found however many came after") {
  Fixture f(3);
  auto held = f.get("held");
  for (int i = 0; i < 1000; ++i) f.get(std::to_string(i));
  CHECK(f.living == 4);
  CHECK(f.cache.known() < 20);
  CHECK(f.get("held") == held);
  CHECK(f.hit);
  f.get("999");
  CHECK(f.hit);
  f.get("0");
  CHECK(!f.hit);
}

TEST_CASE("the least recently used goes first") {
  Fixture f(2);
  f.get("a");
  f.get("b");
  f.get("a");
  f.get("c");
  f.get("a");
  CHECK(f.hit);
  f.get("b");
  CHECK(!f.hit);
}

TEST_CASE("a failure is told to all that wait, and forgotten") {
  Fixture f(2);
  auto fail = []() -> std::shared_ptr<const Kernel> { throw std::runtime_error("no"); };
  CHECK_THROWS_AS(f.cache.get("a", fail, &f.hit), std::runtime_error);
  CHECK(f.get("a") != nullptr);
  CHECK(!f.hit);
}

TEST_CASE("threads that ask for one variant wait for one compile") {
  Fixture f(2);
  std::atomic<int> compiles{0};
  std::vector<std::shared_ptr<const Kernel>> got(8);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < got.size(); ++t) {
      threads.emplace_back([&, t] {
        bool hit = false;
        got[t] = f.cache.get(
            "a",
            [&] {
              ++compiles;
              std::this_thread::sleep_for(std::chrono::milliseconds(50));
              return std::make_shared<const Kernel>(f.living);
            },
            &hit);
      });
    }
  }
  CHECK(compiles == 1);
  for (const auto& k : got) CHECK(k == got[0]);
}
