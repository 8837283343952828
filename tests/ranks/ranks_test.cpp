// Steps on ranks that are threads, over NCCL's functions from a fake library: one norm, one
// device's bits with an exchange of pieces, and what is said where ranks differ. And the norm of
// 16,384 ranks.
#include <cmath>
#include <cstdlib>
#include <exception>
#include <functional>
#include <limits>
#include <thread>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/ranks.hpp>

#include "ir/reduction.hpp"
#include "runtime/cpu/llvm_compiler.hpp"

using namespace stepfuse;

namespace {

constexpr uint64_t kPiece = kPieceElements;

// Runs `f` on ranks that are threads; what each threw, or nothing.
std::vector<std::string> on_ranks(int size, const std::function<void(Collectives&)>& f) {
  ::setenv("STEPFUSE_NCCL_LIBRARY", STEPFUSE_FAKE_NCCL, 1);
  NcclId id = nccl_id();
  std::vector<std::string> said(static_cast<size_t>(size));
  std::vector<std::jthread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      try {
        f(*nccl_collectives(r, size, id));
      } catch (const std::exception& e) {
        said[static_cast<size_t>(r)] = e.what();
      }
    });
  }
  threads.clear();
  return said;
}

RecipeOptions recipe(Clip clip) {
  return {.loss_scale = LossScale::dynamic, .clip = clip, .all_reduce = true};
}

const std::vector<uint64_t> kSizes = {5 * kPiece + 3, 900, 4 * kPiece, 70};

struct Shard {
  size_t tensor;
  uint64_t offset, size;
};

// Pieces dealt out to ranks in stretches; the smallest shards are tensors of less than a piece.
std::vector<std::vector<Shard>> cut(int ranks) {
  std::vector<Shard> pieces;
  for (size_t t = 0; t < kSizes.size(); ++t)
    for (uint64_t at = 0; at < kSizes[t]; at += kPiece)
      pieces.push_back({t, at, std::min(kPiece, kSizes[t] - at)});
  std::vector<std::vector<Shard>> out(static_cast<size_t>(ranks));
  for (size_t i = 0; i < pieces.size(); ++i) {
    auto& mine = out[i * static_cast<size_t>(ranks) / pieces.size()];
    if (!mine.empty() && mine.back().tensor == pieces[i].tensor) {
      mine.back().size += pieces[i].size;
    } else {
      mine.push_back(pieces[i]);
    }
  }
  return out;
}

Layout whole_layout() {
  Layout layout;
  for (size_t t = 0; t < kSizes.size(); ++t)
    layout.add({.name = "t" + std::to_string(t), .size = kSizes[t]});
  return layout;
}

// Weights, moments and gradients of the full tensors; every rank writes to its own shards.
struct Model {
  std::vector<std::vector<float>> arrays[4];
  Model() {
    for (auto& kind : arrays)
      for (uint64_t n : kSizes) kind.emplace_back(n);
    for (auto& w : arrays[0])
      for (size_t i = 0; i < w.size(); ++i) w[i] = std::sin(static_cast<float>(i));
  }
  void gradients(int step) {
    for (size_t t = 0; t < kSizes.size(); ++t)
      for (size_t i = 0; i < kSizes[t]; ++i)
        arrays[3][t][i] =
            65536 * std::cos(static_cast<float>(i * (t + 3)) + static_cast<float>(step));
    if (step == 2) arrays[3][2][kPiece + 5] = std::numeric_limits<float>::infinity();
  }
};

struct Trainer {
  Trainer(Model& model, const std::vector<Shard>& shards, Clip clip)
      : scaler({.growth_interval = 2}) {
    Layout layout;
    const char* names[] = {"weight", "exp_avg", "exp_avg_sq"};
    for (const Shard& s : shards) {
      layout.add({.name = "t" + std::to_string(s.tensor), .size = s.size, .offset = s.offset});
      gradients.push_back(&model.arrays[3][s.tensor][s.offset]);
    }
    step = std::make_unique<Step>(make_recipe("adamw", recipe(clip)), layout, Device::cpu(1),
                                  StepOptions{.scaler = &scaler, .observe = true});
    step->prepare();
    for (size_t b = 0; b < 3; ++b) {
      std::vector<void*> pointers;
      for (const Shard& s : shards) pointers.push_back(&model.arrays[b][s.tensor][s.offset]);
      step->bind(names[b], pointers);
    }
    step->init_state();
    args.emplace(step->make_args());
    args->set("max_norm", 0.5);
  }
  LossScaler scaler;
  std::vector<void*> gradients;
  std::unique_ptr<Step> step;
  std::optional<Args> args;
};

struct Outcome {
  std::vector<double> norms, scales;
  bool operator==(const Outcome&) const = default;
};

constexpr int kSteps = 4;
void note(Outcome& out, const Trainer& t) {
  out.norms.push_back(t.step->latest()->at("grad_norm"));
  out.scales.push_back(t.scaler.read());
}

#define NEEDS_LLVM()                             \
  if (!llvm_status().available) {                \
    MESSAGE("skipped: no LLVM on this machine"); \
    return;                                      \
  }

}  // namespace

TEST_CASE("pieces exchanged between ranks give one device's bits") {
  NEEDS_LLVM();
  for (Clip clip : {Clip::l2, Clip::inf}) {
    Model alone;
    std::vector<Shard> all;
    for (size_t t = 0; t < kSizes.size(); ++t) all.push_back({t, 0, kSizes[t]});
    Trainer one(alone, all, clip);
    Outcome want;
    for (int i = 0; i < kSteps; ++i) {
      alone.gradients(i);
      one.step->run(one.gradients, *one.args);
      note(want, one);
    }
    CHECK(want.scales == std::vector<double>{65536, 131072, 65536, 65536});
    for (int size : {1, 2, 3, 4, 7}) {
      CAPTURE(size);
      auto shards = cut(size);
      Model model;
      std::vector<Outcome> got(static_cast<size_t>(size));
      std::vector<std::string> said = on_ranks(size, [&](Collectives& ranks) {
        auto me = static_cast<size_t>(ranks.rank());
        Model own;  // gradients of this rank's own making, like every rank's
        Trainer t(model, shards[me], clip);
        std::vector<void*> gradients;
        for (const Shard& s : shards[me]) gradients.push_back(&own.arrays[3][s.tensor][s.offset]);
        PieceExchange exchange(*t.step, whole_layout(), ranks);
        for (int i = 0; i < kSteps; ++i) {
          own.gradients(i);
          exchange.reduce(gradients, *t.args);
          t.step->run(gradients, *t.args);
          note(got[me], t);
        }
      });
      for (const std::string& s : said) CHECK(s == "");
      for (const Outcome& o : got) CHECK(o == want);
      for (size_t b = 0; b < 3; ++b) CHECK(model.arrays[b] == alone.arrays[b]);
    }
  }
}

TEST_CASE("an all-reduce gives all ranks one norm and one verdict") {
  NEEDS_LLVM();
  for (Clip clip : {Clip::l2, Clip::inf}) {
    auto shards = cut(3);
    Model model;
    std::vector<Outcome> got(3);
    std::vector<std::string> said = on_ranks(3, [&](Collectives& ranks) {
      auto me = static_cast<size_t>(ranks.rank());
      Model own;
      Trainer t(model, shards[me], clip);
      std::vector<void*> gradients;
      for (const Shard& s : shards[me]) gradients.push_back(&own.arrays[3][s.tensor][s.offset]);
      for (int i = 0; i < kSteps; ++i) {
        own.gradients(i);
        t.step->reduce(gradients, *t.args);
        share_partials(*t.step, ranks);
        t.step->run(gradients, *t.args);
        note(got[me], t);
      }
    });
    for (const std::string& s : said) CHECK(s == "");
    CHECK(got[0].scales == std::vector<double>{65536, 131072, 65536, 65536});
    CHECK(got[1] == got[0]);
    CHECK(got[2] == got[0]);
  }
}

TEST_CASE("ranks that differ are told which") {
  NEEDS_LLVM();
  auto said = on_ranks(4, [](Collectives& ranks) {
    agree(ranks, {{"version", "1"}, {"layout", ranks.rank() == 2 ? "w 4" : "w 5"}});
  });
  for (const std::string& s : said)
    CHECK(
        s ==
        "rank 2 has another layout than rank 0, 1, 3; make all ranks alike before the first step");
  for (const std::string& s : on_ranks(2, [](Collectives& r) { agree(r, {{"a", "x"}}); }))
    CHECK(s == "");

  auto shards = cut(2);
  shards[1].pop_back();
  Model model;
  said = on_ranks(2, [&](Collectives& ranks) {
    Trainer t(model, shards[static_cast<size_t>(ranks.rank())], Clip::l2);
    PieceExchange(*t.step, whole_layout(), ranks);
  });
  for (const std::string& s : said) CHECK(s == "of 't3' the elements from 0 on are no rank's");
  said = on_ranks(2, [&](Collectives& ranks) {
    Trainer t(model, cut(1)[0], Clip::l2);
    PieceExchange(*t.step, whole_layout(), ranks);
  });
  for (const std::string& s : said)
    CHECK(s.find("are two ranks': each element belongs to one rank") != std::string::npos);
}

TEST_CASE("the norm of 16,384 ranks has one device's bits when its pieces are folded") {
  NEEDS_LLVM();
  // Each rank has two tensors of some elements: 32,768 pieces, which one device folds in two rounds.
  constexpr size_t kRanks = 16384, kElements = 5;
  std::vector<float> gradient(kRanks * 2 * kElements), weight(gradient.size());
  for (size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = std::sin(static_cast<float>(i)) * std::exp(static_cast<float>(i % 23) - 11);
  Program program = make_recipe("sgd", {.clip = Clip::l2, .all_reduce = true});
  auto make = [&](size_t tensors) {
    Layout layout;
    for (size_t t = 0; t < tensors; ++t) layout.add({.size = kElements});
    Step step(program, layout, Device::cpu(1), {.observe = true});
    step.prepare();
    std::vector<void*> pointers;
    for (size_t t = 0; t < tensors; ++t) pointers.push_back(&weight[t * kElements]);
    step.bind("weight", pointers);
    step.adopt_state();
    return step;
  };
  auto gradients = [&](size_t first, size_t count) {
    std::vector<void*> pointers;
    for (size_t t = first; t < first + count; ++t) pointers.push_back(&gradient[t * kElements]);
    return pointers;
  };
  auto value_of = [](const Step& step) {
    Partials p = step.partials();
    return *reinterpret_cast<float*>(static_cast<char*>(p.block) + p.at("sum").offset);
  };
  Step one = make(2 * kRanks), rank = make(2);
  one.reduce(gradients(0, 2 * kRanks), one.make_args());
  float want = value_of(one);

  std::vector<Bits> pieces;
  float in_order = 0;
  for (size_t r = 0; r < kRanks; ++r) {
    std::vector<void*> g = gradients(2 * r, 2);
    rank.observe(0, g, rank.make_args());
    Partials partials = rank.partials();
    const Partial& p = partials.at("sum");
    REQUIRE(p.piece_count == 2);
    for (size_t i = 0; i < 2; ++i)
      pieces.push_back(Bits::of(static_cast<const float*>(p.pieces)[i]));
    rank.reduce(g, rank.make_args());
    in_order += value_of(rank);
  }
  CHECK(fold_values(Op::reduce_add, DType::f32, pieces).f32() == want);
  // Sums of ranks, added up in their order, are another number, and near.
  CHECK(in_order != want);
  CHECK(in_order == doctest::Approx(want).epsilon(1e-4));
}
