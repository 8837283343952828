// How NCCL's collectives end: with what is queued, after a limit, or with a rank that is lost. Over a fake
// library. Knows the public API.
#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/ranks.hpp>

using namespace stepfuse;

namespace {

enum Mode { plain, queues, never_finalizes, rank_lost };  // fake_nccl.cpp's

template <class F>
F* fake_nccl(const char* name) {
  static void* handle = dlopen(STEPFUSE_FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<F*>(dlsym(handle, name));
}
void set_mode(Mode mode) { fake_nccl<void(int)>("stepfuse_fake_nccl_mode")(mode); }
NcclId new_id() {
  ::setenv("STEPFUSE_NCCL_LIBRARY", STEPFUSE_FAKE_NCCL, 1);
  return nccl_id();
}
int aborts() { return fake_nccl<int()>("stepfuse_fake_nccl_aborts")(); }

}  // namespace

TEST_CASE(
    "collectives that are destroyed finish what is queued, and give up what does not finish") {
  float values[] = {1, 2};
  int before = aborts();
  set_mode(queues);
  {
    NcclId id = new_id();
    std::vector<std::jthread> threads;
    for (int r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] {
        auto ranks = nccl_collectives(r, 2, id);
        ranks->all_reduce(&values[r], 1, Reduction::add, {});
        CHECK(values[r] == static_cast<float>(r + 1));
      });
    }
  }
  CHECK(values[0] == 3);
  CHECK(values[1] == 3);
  CHECK(aborts() == before);

  set_mode(never_finalizes);
  auto start = std::chrono::steady_clock::now();
  nccl_collectives(0, 1, new_id(), 0.2);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  CHECK(aborts() == before + 1);
  set_mode(plain);
}

TEST_CASE("a rank that is lost ends what waits for it, without a call, and the next call says so") {
  int before = aborts();
  auto ranks = nccl_collectives(0, 1, new_id());
  set_mode(rank_lost);
  for (int i = 0; i < 1000 && aborts() == before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(aborts() == before + 1);
  float value = 1;
  for (int again = 0; again < 2; ++again) {
    CHECK_THROWS_WITH_AS(ranks->all_reduce(&value, 1, Reduction::add, {}),
                         doctest::Contains("a remote process exited"), Error);
  }
  set_mode(plain);
  ranks.reset();
  CHECK(aborts() == before + 1);
}
