// Arguments of tensors, and tensors that move to another group, on a device.
#include <vector>

#include <doctest/doctest.h>

#include "tests/cuda/fake_device.hpp"
#include "tests/support/graph.hpp"
#include "tests/support/grouped_step.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("tensors' arguments and groups change between a device's runs as on the host") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  make_context_current();
  // Few enough that arguments go with the launch, and too many for it.
  for (size_t tensors : {4, 60}) {
    for (Form form : {Form::fused, Form::unfused}) {
      std::vector<int> groups(tensors, 0);
      groups[1] = groups.back() = 1;
      GroupedStep want(Device::interpreter(), groups, true, form);
      GroupedStep got(Device::cuda(), groups, true, form);
      for (int i = 0; i < 4; ++i) {
        for (GroupedStep* s : {&want, &got}) {
          if (i == 1) s->args->set("lr_scale", Tensor{2}, 0.5);
          if (i == 2) s->step().set_group(Tensor{2}, Group{1});
          if (i == 3) s->step().set_group(Tensor{1}, Group{0});
          s->run(i);
        }
        CHECK(got.weights() == want.weights());
      }
      CHECK(got.step().stats()->index == 3);
      CHECK(got.step().history().size() == 4);
    }
  }
}
