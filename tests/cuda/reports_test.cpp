// Reports of the step, of groups and of tensors in one record that the kernel writes to the host.
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

#include "runtime/cuda/host_access.hpp"
#include "tests/cuda/fake_device.hpp"
#include "tests/support/graph.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("groups and tensors report the same on the device as in the interpreter") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  make_context_current();
  Program program = parse(R"(step @several {
    buffer @grad : f32 in
    buffer @weight : f32 inout
    report @largest : <f32>
    report @all : f32
    report @sums : {f32}
    report @is_large : <bool>
    report @rounds : i32
    state @round : i32
    %one = const 1 : i32
    %r = read @round : i32
    %r1 = add %r, %one : i32
    %g = load @grad : [f32]
    %w = load @weight : [f32]
    %m = reduce_max %g : <f32>
    %s = reduce_add %g : {f32}
    %a = reduce_max %g : f32
    %limit = const 5 : f32
    %l = lt %limit, %m : <bool>
    %n = add %w, %a : [f32]
    store @weight, %n
    write @round, %r1
    write @largest, %m
    write @all, %a
    write @sums, %s
    write @is_large, %l
    write @rounds, %r1
  })");
  auto run = [&](const Device& device) {
    std::vector<float> weight(4), grad = {3, 4, 12, 1};
    cuda::HostAccess first(0, std::span(reinterpret_cast<char*>(weight.data()), 16));
    cuda::HostAccess second(0, std::span(reinterpret_cast<char*>(grad.data()), 16));
    Layout layout;
    for (int i = 0; i < 4; ++i) layout.add({.elements = 1, .group = i / 2});
    Step step(program, layout, device, {.stats_ring = 8});
    step.prepare();
    std::vector<void*> w, g;
    for (size_t i = 0; i < 4; ++i) {
      w.push_back(&weight[i]);
      g.push_back(&grad[i]);
    }
    step.bind_raw("weight", w);
    std::vector<std::vector<std::pair<std::string, std::vector<double>>>> lists;
    for (int i = 0; i < 5; ++i) {
      grad[2] += 1;
      step.run(g, step.make_args());
      lists.push_back(step.stats()->lists);
      CHECK(step.latest()->at("all") == grad[2]);
      CHECK(step.latest()->at("rounds") == i + 1);
    }
    CHECK(step.history().size() == 5);
    return lists;
  };
  auto want = run(Device::interpreter());
  REQUIRE(want[0].size() == 3);
  CHECK(want[0][0].second == std::vector<double>{3, 4, 13, 1});
  CHECK(want[0][1].second == std::vector<double>{7, 14});
  CHECK(want[0][2].second == std::vector<double>{0, 0, 1, 0});
  CHECK(run(Device::cuda()) == want);
}
