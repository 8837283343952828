// The sample's FusedAdamW with awkward inputs from libtorch. The exit code is 1 if anything
// differs. Knows libtorch and the sample.
#include <cstdio>
#include <functional>

#include "samples/libtorch/fused_adamw.hpp"

namespace {

int failures = 0;

void expect(bool good, const char* what) {
  if (good) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}

void expect_message(const std::function<void()>& body, const std::string& text) {
  try {
    body();
    expect(false, text.c_str());
  } catch (const std::exception& error) {
    bool found = std::string(error.what()).find(text) != std::string::npos;
    if (!found) std::printf("%s\n", error.what());
    expect(found, text.c_str());
  }
}

torch::Tensor parameter(std::vector<int64_t> shape) { return torch::randn(shape).requires_grad_(); }

FusedAdamW one(const std::string& name, const torch::Tensor& p) {
  return FusedAdamW({{{{name, p}}, 0.1}}, {.lr = 0.1});
}

void beside_torch() {
  torch::manual_seed(3);
  std::vector<torch::Tensor> ours = {parameter({8, 16}), parameter({24}), parameter({4})}, theirs;
  for (const torch::Tensor& p : ours) theirs.push_back(p.detach().clone().requires_grad_());
  FusedAdamW step({{{{"a", ours[0]}, {"b", ours[1]}}, 0.1}, {{{"c", ours[2]}}, 0}}, {.lr = 0.01});
  std::vector<torch::optim::OptimizerParamGroup> groups;
  auto options = [](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(
        torch::optim::AdamWOptions(0.01).weight_decay(decay));
  };
  groups.emplace_back(std::vector<torch::Tensor>{theirs[0], theirs[1]}, options(0.1));
  groups.emplace_back(std::vector<torch::Tensor>{theirs[2]}, options(0));
  torch::optim::AdamW optimizer(groups, torch::optim::AdamWOptions(0.01));
  for (int i = 0; i < 20; ++i) {
    for (size_t t = 0; t < ours.size(); ++t) {
      torch::Tensor g = torch::randn(ours[t].sizes());
      if (t == 0) g = torch::randn({16, 8}).t();  // a layout that differs from its parameter's
      bool missing = t == 1 && i % 4 == 1;
      ours[t].mutable_grad() = missing ? torch::Tensor() : g;
      theirs[t].mutable_grad() = missing ? torch::Tensor() : g.clone();
    }
    torch::Tensor before = ours[1].detach().clone();
    step.step();
    expect(i % 4 != 1 || torch::equal(before, ours[1]),
           "without a gradient a parameter stays as it is");
    torch::nn::utils::clip_grad_norm_(theirs, 1);
    optimizer.step();
  }
  for (size_t t = 0; t < ours.size(); ++t) {
    expect(torch::allclose(ours[t], theirs[t], 1e-5, 1e-6),
           "the parameters are those of torch's AdamW");
  }
  step.zero_grad();
  expect(!ours[0].grad().defined(), "zero_grad lets go of the gradients");
}

void refused() {
  expect_message([] { one("tilted", parameter({4, 6}).detach().t().requires_grad_()); },
                 "tilted is not contiguous (strides [1, 6])");
  expect_message([] { one("wide", torch::ones({4}, torch::kDouble).requires_grad_()); },
                 "wide is Double");
  torch::Tensor table = parameter({8, 4});
  FusedAdamW step = one("table", table);
  table.mutable_grad() = torch::zeros({8, 4}).to_sparse();
  expect_message([&] { step.step(); }, "the gradient of table is Sparse");
}

void autograd_notices() {
  torch::Tensor w = parameter({8});
  FusedAdamW step = one("w", w);
  torch::Tensor loss = (w * w).sum();
  w.mutable_grad() = torch::ones({8});
  step.step();
  expect_message([&] { loss.backward(); }, "modified by an inplace operation");
}

}  // namespace

int main() {
  beside_torch();
  refused();
  autograd_notices();
  std::printf("%d failed\n", failures);
  return failures == 0 ? 0 : 1;
}
