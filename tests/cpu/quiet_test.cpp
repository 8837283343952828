// A run neither allocates nor takes a lock.
#include "tests/support/host_calls.hpp"

#if STEPFUSE_COUNTS_HOST_CALLS

#include <pthread.h>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

namespace {

using namespace stepfuse;
using namespace stepfuse::testing;

// A whole AMP step over tensors of the given sizes, ready to run.
class Trainer {
 public:
  Trainer(const std::vector<uint64_t>& sizes, int threads, Form form = Form::fused)
      : step_(make_recipe("adamw", {.grad = DType::f16,
                                    .master = true,
                                    .loss_scale = LossScale::dynamic,
                                    .clip = Clip::l2}),
              layout(sizes), Device::cpu(threads), {.form = form, .scaler = &scaler_}),
        args_(step_.make_args()) {
    step_.prepare();
    for (const char* buffer : {"weight", "master", "exp_avg", "exp_avg_sq"}) {
      step_.bind_raw(buffer, arrays(sizes));
    }
    step_.init_state();
    gradients_[0] = arrays(sizes);
    gradients_[1] = arrays(sizes);
    gradients_[1][0] = nullptr;
    args_.set("lr", 1e-3);
    args_.set("max_norm", 1.0);
  }

  void run(int i) { step_.run(gradients_[i % 2], args_); }
  const Step& step() const { return step_; }

 private:
  static Layout layout(const std::vector<uint64_t>& sizes) {
    Layout result;
    for (uint64_t n : sizes) result.add({.elements = n});
    return result;
  }
  std::vector<void*> arrays(const std::vector<uint64_t>& sizes) {
    std::vector<void*> result;
    for (uint64_t n : sizes) result.push_back(memory_.emplace_back(n + 1).data());
    return result;
  }

  std::vector<std::vector<float>> memory_;
  std::vector<void*> gradients_[2];
  LossScaler scaler_;
  Step step_;
  Args args_;
};

HostCalls count_runs(const std::vector<uint64_t>& sizes, int threads, Form form) {
  Trainer trainer(sizes, threads, form);
  for (int i = 0; i < 20; ++i) trainer.run(i);
  start_counting();
  for (int i = 0; i < 1000; ++i) trainer.run(i);
  return stop_counting();
}

}  // namespace

TEST_CASE("1,000 runs after warm-up make no allocation and take no lock") {
  const std::vector<uint64_t> mixed = {300000, 1, 5000, 0, 40000}, tiny(500, 3);
  for (int threads : {1, 2}) {
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      for (const auto& sizes : {mixed, tiny}) {
        CHECK(count_runs(sizes, threads, form) == HostCalls{});
      }
    }
  }
  // Checks that the counters count.
  start_counting();
  delete new std::vector<int>(100);
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  HostCalls some = stop_counting();
  CHECK(some.allocations > 0);
  CHECK(some.locks > 0);
}

#endif
