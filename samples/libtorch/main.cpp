// Trains one small GPT twice on libtorch, side by side and from the same start: with
// torch::optim::AdamW and clip_grad_norm_, and with both replaced by one step. Knows libtorch and
// the sample's optimizer.
//
//   libtorch_gpt [STEPS] [TEXT]      exit code 1 where the losses are ever 1e-3 apart, or do not fall
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "samples/libtorch/fused_adamw.hpp"

namespace {

constexpr int64_t kContext = 32, kWidth = 64, kHeads = 4, kLayers = 2, kBatch = 8;
constexpr double kRate = 3e-3, kDecay = 0.1, kMaxNorm = 1;

struct BlockImpl : torch::nn::Module {
  torch::nn::LayerNorm before{nullptr}, between{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, wide{nullptr}, narrow{nullptr};

  BlockImpl() {
    before = register_module("before", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    between =
        register_module("between", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    qkv = register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth));
    out = register_module("out", torch::nn::Linear(kWidth, kWidth));
    wide = register_module("wide", torch::nn::Linear(kWidth, 4 * kWidth));
    narrow = register_module("narrow", torch::nn::Linear(4 * kWidth, kWidth));
  }
  torch::Tensor forward(torch::Tensor x) {
    std::vector<torch::Tensor> parts;
    for (const torch::Tensor& part : qkv(before(x)).chunk(3, 2)) {
      parts.push_back(part.view({x.size(0), x.size(1), kHeads, -1}).transpose(1, 2));
    }
    torch::Tensor mixed =
        at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, true);
    x = x + out(mixed.transpose(1, 2).flatten(2));
    return x + narrow(torch::gelu(wide(between(x))));
  }
};
TORCH_MODULE(Block);

struct GptImpl : torch::nn::Module {
  torch::nn::Embedding symbol{nullptr}, place{nullptr};
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm last{nullptr};
  torch::nn::Linear head{nullptr}, spare{nullptr};  // `spare` never gets a gradient

  explicit GptImpl(int64_t symbols) {
    symbol = register_module("symbol", torch::nn::Embedding(symbols, kWidth));
    place = register_module("place", torch::nn::Embedding(kContext, kWidth));
    for (int64_t i = 0; i < kLayers; ++i) blocks->push_back(Block());
    register_module("blocks", blocks);
    last = register_module("last", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    head = register_module("head", torch::nn::Linear(kWidth, symbols));
    spare = register_module("spare", torch::nn::Linear(kWidth, symbols));
  }
  torch::Tensor forward(const torch::Tensor& symbols) {
    torch::Tensor x = symbol(symbols) + place(torch::arange(symbols.size(1)));
    for (const auto& block : *blocks) x = block->as<Block>()->forward(x);
    return head(last(x));
  }
};
TORCH_MODULE(Gpt);

// Matrices are decayed, vectors are not.
std::vector<FusedAdamW::Group> groups(Gpt& model) {
  std::vector<FusedAdamW::Group> out = {{{}, kDecay}, {{}, 0}};
  for (auto& item : model->named_parameters()) {
    out[item.value().dim() > 1 ? 0 : 1].params.push_back(item);
  }
  return out;
}

torch::optim::AdamW classic_optimizer(Gpt& model) {
  std::vector<torch::optim::OptimizerParamGroup> out;
  for (const FusedAdamW::Group& group : groups(model)) {
    std::vector<torch::Tensor> params;
    for (const auto& item : group.params) params.push_back(item.value());
    out.emplace_back(params,
                     std::make_unique<torch::optim::AdamWOptions>(
                         torch::optim::AdamWOptions(kRate).weight_decay(group.weight_decay)));
  }
  return torch::optim::AdamW(out, torch::optim::AdamWOptions(kRate));
}

torch::Tensor read_text(const std::string& path, int64_t& symbols) {
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, "cannot read ", path);
  std::stringstream text;
  text << file.rdbuf();
  std::string letters = text.str(), known = letters;
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  std::vector<int64_t> indices;
  for (char c : letters) indices.push_back(static_cast<int64_t>(known.find(c)));
  symbols = static_cast<int64_t>(known.size());
  return torch::tensor(indices);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Side {
  Gpt model;
  double loss = 0;
  std::vector<double> times = {};

  template <class Step>
  void train(const torch::Tensor& batch, Step&& step) {
    torch::Tensor logits = model->forward(batch.slice(1, 0, kContext));
    torch::Tensor value =
        torch::cross_entropy_loss(logits.flatten(0, 1), batch.slice(1, 1).flatten());
    value.backward();
    loss = value.item<double>();
    double began = seconds();
    step();
    times.push_back(seconds() - began);
  }
  double median_ms() {
    std::sort(times.begin(), times.end());
    return 1e3 * times[times.size() / 2];
  }
};

int run(int steps, const std::string& path) {
  int64_t symbols = 0;
  torch::Tensor text = read_text(path, symbols);
  torch::manual_seed(1);
  Side classic{Gpt(symbols)};
  torch::manual_seed(1);
  Side fused{Gpt(symbols)};

  torch::optim::AdamW theirs = classic_optimizer(classic.model);
  FusedAdamW ours(groups(fused.model), {.lr = kRate, .max_norm = kMaxNorm});
  std::vector<torch::Tensor> params = classic.model->parameters();

  double first = 0, apart = 0;
  for (int i = 0; i < steps; ++i) {
    torch::Tensor starts = torch::randint(text.size(0) - kContext - 1, {kBatch, 1});
    torch::Tensor batch = text.index({starts + torch::arange(kContext + 1)});
    classic.train(batch, [&] {
      torch::nn::utils::clip_grad_norm_(params, kMaxNorm);
      theirs.step();
    });
    fused.train(batch, [&] { ours.step(); });
    theirs.zero_grad();
    ours.zero_grad();
    if (i == 0) first = fused.loss;
    apart = std::max(apart, std::abs(classic.loss - fused.loss));
    if (i % 20 == 0 || i + 1 == steps) {
      std::printf("%4d  classic %.6f  stepfuse %.6f  gradient norm %.4f\n", i, classic.loss,
                  fused.loss, ours.grad_norm());
    }
  }
  double theirs_ms = classic.median_ms(), ours_ms = fused.median_ms();
  std::printf(
      "\nstep, median: clip_grad_norm_ and torch::optim::AdamW %.3f ms, stepfuse %.3f ms, %.1f "
      "times\n",
      theirs_ms, ours_ms, theirs_ms / ours_ms);
  std::printf("losses at most %.1e apart\n", apart);
  return apart < 1e-3 && fused.loss < first ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 200, argc > 2 ? argv[2] : STEPFUSE_TEXT);
} catch (const std::exception& error) {
  std::fprintf(stderr, "libtorch_gpt: %s\n", error.what());
  return 2;
}
