// Steps on ranks that are threads, over a fake library with NCCL's functions: one norm, one
// device's bits when pieces are exchanged, and errors for ranks that differ. Also the norm of
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

#include "ir/semantics/reduction.hpp"
#include "runtime/cpu/llvm_compiler.hpp"

using namespace stepfuse;

namespace {

constexpr uint64_t kPiece = kPieceElements;

// Runs `f` on threads as ranks; returns each one's exception text, or "".
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

// Consecutive pieces dealt out to ranks; the smallest shards are tensors of less than a piece.
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
    layout.add({.name = "t" + std::to_string(t), .elements = kSizes[t]});
  return layout;
}

// Weights, moments and gradients of the full tensors; every rank writes its own shards.
struct Model {
  std::vector<std::vector<float>> arrays[4];
  explicit Model(const std::vector<uint64_t>& sizes = kSizes) {
    for (auto& kind : arrays)
      for (uint64_t n : sizes) kind.emplace_back(n);
    for (auto& w : arrays[0])
      for (size_t i = 0; i < w.size(); ++i) w[i] = std::sin(static_cast<float>(i));
  }
  void gradients(int step) {
    for (size_t t = 0; t < arrays[3].size(); ++t)
      for (size_t i = 0; i < arrays[3][t].size(); ++i)
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
      layout.add({.name = "t" + std::to_string(s.tensor), .elements = s.size, .offset = s.offset});
      gradients.push_back(&model.arrays[3][s.tensor][s.offset]);
    }
    step = std::make_unique<Step>(make_recipe("adamw", recipe(clip)), layout, Device::cpu(1),
                                  StepOptions{.scaler = &scaler, .observe = true});
    step->prepare();
    for (size_t b = 0; b < 3; ++b) {
      std::vector<void*> pointers;
      for (const Shard& s : shards) pointers.push_back(&model.arrays[b][s.tensor][s.offset]);
      step->bind_raw(names[b], pointers);
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
        Model own;  // each rank computes its own gradients
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

TEST_CASE("a formula's own sum is exchanged as a sum, beside the maximum norm") {
  NEEDS_LLVM();
  Optimizer formula = parse_optimizer(
      "optimizer o {\n  hyper lr = 1\n  let sum = sum(w, step)\n  let top = max(w, step)\n"
      "  w = w - lr * g - sum - top\n}\n");
  const Program program = make_recipe(formula, {.clip = Clip::inf, .all_reduce = true});
  auto stepped = [&](std::vector<float> weight, std::vector<float> gradient, Collectives* ranks) {
    Step step(program, Layout().add({.name = "t", .elements = weight.size()}), Device::cpu(1),
              {.observe = true});
    step.prepare();
    step.bind_raw("weight", {weight.data()});
    step.init_state();
    Args args = step.make_args();
    step.reduce({gradient.data()}, args);
    for (const Partial& p : step.partials().all) {
      bool own = p.name == "sum" || p.name == "top";
      CHECK(p.pipeline == !own);
    }
    CHECK(step.partials().at("sum").op == Reduction::add);
    if (ranks != nullptr) share_partials(step, *ranks);
    step.run({gradient.data()}, args);
    return weight;
  };
  const std::vector<float> weight = {1, 2, 3, 4}, gradient = {0.5F, -1, 0.25F, 2};
  const std::vector<float> want = stepped(weight, gradient, nullptr);
  CHECK(want == std::vector<float>{-13.25F, -11.5F, -11.125F, -11});
  for (const std::string& said : on_ranks(2, [&](Collectives& ranks) {
         auto at = [&](const std::vector<float>& all) {
           return std::vector<float>{all.begin() + 2 * ranks.rank(),
                                     all.begin() + 2 * ranks.rank() + 2};
         };
         CHECK(stepped(at(weight), at(gradient), &ranks) == at(want));
       })) {
    CHECK(said == "");
  }
}

TEST_CASE("ranks that differ are told which") {
  NEEDS_LLVM();
  auto said = on_ranks(4, [](Collectives& ranks) {
    agree(ranks, {{"version", "1"}, {"layout", ranks.rank() == 2 ? "w 4" : "w 5"}});
  });
  for (const std::string& s : said)
    CHECK(s ==
          "rank 2 has a different layout from rank 0, 1, 3; give all ranks the same step and "
          "options before the first run");
  for (const std::string& s : on_ranks(2, [](Collectives& r) { agree(r, {{"a", "x"}}); }))
    CHECK(s == "");

  auto shards = cut(2);
  shards[1].pop_back();
  Model model;
  said = on_ranks(2, [&](Collectives& ranks) {
    Trainer t(model, shards[static_cast<size_t>(ranks.rank())], Clip::l2);
    PieceExchange(*t.step, whole_layout(), ranks);
  });
  for (const std::string& s : said) CHECK(s == "the elements of 't3' from 0 on belong to no rank");
  said = on_ranks(2, [&](Collectives& ranks) {
    Trainer t(model, cut(1)[0], Clip::l2);
    PieceExchange(*t.step, whole_layout(), ranks);
  });
  for (const std::string& s : said)
    CHECK(s.find("belong to two ranks: give each element to one rank") != std::string::npos);
  // A step takes shards that are cut at any four elements, but then its pieces differ from one device's.
  said = on_ranks(2, [&](Collectives& ranks) {
    std::vector<Shard> all = cut(1)[0], mine = all;
    uint64_t size = all[0].size, four = 4;
    mine[0] = ranks.rank() == 0 ? Shard{0, 0, four} : Shard{0, four, size - four};
    if (ranks.rank() == 1) mine.resize(1);
    Trainer t(model, mine, Clip::l2);
    PieceExchange(*t.step, whole_layout(), ranks);
  });
  for (const std::string& s : said) {
    CHECK(s ==
          "rank 1 has a shard of 't0' that begins at element 4: cut shards at multiples of 16384");
  }
}

namespace {

// A step over some shards of tensors with rows, whose pieces are one row each.
struct RowTrainer {
  RowTrainer(Model& model, const std::vector<TensorSpec>& shards, std::string_view optimizer,
             Layout layout = {}) {
    std::vector<void*> weights;
    for (const TensorSpec& spec : shards) {
      layout.add(spec);
      size_t t = spec.name == "t0" ? 0 : 1;
      weights.push_back(&model.arrays[0][t][spec.offset]);
      gradients.push_back(&model.arrays[3][t][spec.offset]);
    }
    step = std::make_unique<Step>(
        make_recipe(optimizer_of(optimizer), {.clip = Clip::l2, .all_reduce = true}), layout,
        Device::cpu(1), StepOptions{.observe = true});
    step->prepare();
    step->bind_raw("weight", weights);
    step->init_state();
    args.emplace(step->make_args());
    args->set("max_norm", 0.5);
  }
  static Optimizer optimizer_of(std::string_view text) {
    return text == "adafactor" ? *built_in_optimizer(text) : parse_optimizer(text);
  }
  std::vector<void*> gradients;
  std::unique_ptr<Step> step;
  std::optional<Args> args;
};

constexpr const char* kRows = R"(optimizer rows "" {
  state v : row f32
  v = v + norm(g, row)
  w = w - v * g
})";

}  // namespace

TEST_CASE("pieces of rows are exchanged, however many rows there are") {
  NEEDS_LLVM();
  // Many rows in the elements of few pieces, and rows of half a piece.
  constexpr uint64_t kRow = kPiece / 2;
  auto whole = [](uint64_t columns) {
    return std::vector<TensorSpec>{{.name = "t0", .elements = 10 * kRow, .columns = columns},
                                   {.name = "t1", .elements = 900, .columns = 9}};
  };
  auto layout_of = [](const std::vector<TensorSpec>& specs) {
    Layout layout;
    for (const TensorSpec& s : specs) layout.add(s);
    return layout;
  };
  for (uint64_t columns : {uint64_t{64}, kRow}) {
    CAPTURE(columns);
    Model one_model({10 * kRow, 900});
    RowTrainer one(one_model, whole(columns), kRows);
    for (int i = 0; i < 2; ++i) {
      one_model.gradients(i);
      one.step->run(one.gradients, *one.args);
    }
    Model model({10 * kRow, 900});
    std::vector<double> norms(2);
    auto said = on_ranks(2, [&](Collectives& ranks) {
      TensorSpec first = whole(columns)[0], rest = first;
      first.elements = 6 * kRow;
      rest.offset = 6 * kRow;
      rest.elements = 4 * kRow;
      first.full_elements = rest.full_elements = 10 * kRow;
      std::vector<TensorSpec> mine = {first, whole(columns)[1]};
      if (ranks.rank() == 1) mine = {rest};
      Model own({10 * kRow, 900});
      RowTrainer t(model, mine, kRows);
      std::vector<void*> gradients;
      for (const TensorSpec& s : mine)
        gradients.push_back(&own.arrays[3][s.name == "t0" ? 0 : 1][s.offset]);
      PieceExchange exchange(*t.step, layout_of(whole(columns)), ranks);
      for (int i = 0; i < 2; ++i) {
        own.gradients(i);
        exchange.reduce(gradients, *t.args);
        t.step->run(gradients, *t.args);
      }
      norms[static_cast<size_t>(ranks.rank())] = t.step->latest()->at("grad_norm");
    });
    for (const std::string& s : said) CHECK(s == "");
    for (double norm : norms) CHECK(norm == one.step->latest()->at("grad_norm"));
    CHECK(model.arrays[0] == one_model.arrays[0]);
  }
}

TEST_CASE("values of a tensor stay its rank's own, where ranks have whole tensors") {
  NEEDS_LLVM();
  Model one_model({4 * 900, 900}), model({4 * 900, 900});
  std::vector<TensorSpec> specs = {{.name = "t0", .elements = 4 * 900, .columns = 30},
                                   {.name = "t1", .elements = 900, .columns = 9}};
  Layout whole;
  for (const TensorSpec& s : specs) whole.add(s);
  RowTrainer one(one_model, specs, "adafactor");
  one_model.gradients(0);
  one.step->run(one.gradients, *one.args);
  auto said = on_ranks(2, [&](Collectives& ranks) {
    auto me = static_cast<size_t>(ranks.rank());
    Model own({4 * 900, 900});
    own.gradients(0);
    RowTrainer t(model, {specs[me]}, "adafactor");
    PieceExchange exchange(*t.step, whole, ranks);
    std::vector<void*> gradients = {own.arrays[3][me].data()};
    exchange.reduce(gradients, *t.args);
    t.step->run(gradients, *t.args);
  });
  for (const std::string& s : said) CHECK(s == "");
  CHECK(model.arrays[0] == one_model.arrays[0]);
}

TEST_CASE("values per row are whole on their rank") {
  NEEDS_LLVM();
  const std::vector<RecipeOptions> both = {{.check = true, .clip = Clip::agc, .all_reduce = true},
                                           {.check = true, .all_reduce = true, .centralize = true}};
  const std::vector<TensorSpec> specs = {{.name = "t0", .elements = 12, .columns = 3},
                                         {.name = "t1", .elements = 20, .columns = 5}};
  for (const RecipeOptions& options : both) {
    for (const Device& device : {Device::interpreter(), Device::cpu(1)}) {
      // Steps the tensors from `first` on; `ranks` is null if they are all there are.
      auto stepped = [&](Model& model, size_t first, size_t count, Collectives* ranks) {
        Layout layout;
        std::vector<void*> weights, gradients;
        for (size_t t = first; t < first + count; ++t) {
          layout.add(specs[t]);
          weights.push_back(model.arrays[0][t].data());
          gradients.push_back(model.arrays[3][t].data());
        }
        Step step(make_recipe("sgd", options), layout, device, {.observe = true});
        step.prepare();
        step.bind_raw("weight", weights);
        step.init_state();
        Args args = step.make_args();
        args.set("lr", 0.5);
        step.reduce(gradients, args);
        for (const Partial& p : step.partials().all) CHECK(p.count == 1);
        if (ranks != nullptr) share_partials(step, *ranks);
        step.run(gradients, args);
      };
      Model one({12, 20}), model({12, 20});
      one.gradients(0);
      model.gradients(0);
      stepped(one, 0, 2, nullptr);
      for (const std::string& said : on_ranks(2, [&](Collectives& ranks) {
             stepped(model, static_cast<size_t>(ranks.rank()), 1, &ranks);
           })) {
        CHECK(said == "");
      }
      CHECK(model.arrays[0] == one.arrays[0]);
    }
  }
}

TEST_CASE("reports per tensor are not shared") {
  NEEDS_LLVM();
  std::vector<float> weight(4, 1), gradient(4, 2);
  const std::vector<RecipeOptions> both = {
      {.clip = Clip::l2, .all_reduce = true, .layer_norms = true},
      {.clip = Clip::l2, .all_reduce = true, .check_updates = true}};
  for (const RecipeOptions& options : both) {
    for (const std::string& said : on_ranks(2, [&](Collectives& ranks) {
           std::vector<float> own = weight;
           Step step(make_recipe("sgd", options), Layout().add({.name = "t", .elements = 4}),
                     Device::cpu(1), {.observe = true});
           step.prepare();
           step.bind_raw("weight", {own.data()});
           step.init_state();
           step.reduce({gradient.data()}, step.make_args());
           share_partials(step, ranks);
         })) {
      CHECK(said.find("make the recipe without layer_norms and check_updates") !=
            std::string::npos);
    }
  }
}

TEST_CASE("an exchange of pieces refuses what another rank or append() made wrong") {
  NEEDS_LLVM();
  auto shards = cut(2);
  Model model;
  auto make = [&](Collectives& ranks, const Layout& whole, size_t appended) {
    Trainer t(model, shards[static_cast<size_t>(ranks.rank())], Clip::l2);
    PieceExchange exchange(*t.step, whole, ranks);
    for (size_t i = 0; i < appended; ++i) t.step->append({.name = "more", .elements = kPiece});
    if (appended != 0) exchange.reduce(t.gradients, *t.args);
  };
  // Rank 1's tensors have ids that rank 0's do not have.
  auto said = on_ranks(2, [&](Collectives& ranks) {
    Layout whole;
    if (ranks.rank() == 1) {
      for (int i = 0; i < 1000; ++i) whole.add({.name = "u" + std::to_string(i), .elements = 1});
    }
    const Layout all = whole_layout();
    for (const TensorSpec& t : all.tensors()) whole.add(t);
    make(ranks, whole, 0);
  });
  for (const std::string& s : said) CHECK(s.find("a different layout") != std::string::npos);
  // One rank's mistake must not block the others.
  said = on_ranks(2, [&](Collectives& ranks) {
    Trainer t(model, shards[static_cast<size_t>(ranks.rank())], Clip::l2);
    if (ranks.rank() == 1) t.step->append({.name = "more", .elements = 1});
    PieceExchange(*t.step, whole_layout(), ranks);
  });
  CHECK(said[0] == "rank 1 found a mistake in its step or layout; its own message says which");
  CHECK(said[1] == "the whole layout has no tensor 'more'");
  said = on_ranks(2, [&](Collectives& ranks) { make(ranks, whole_layout(), 3); });
  for (const std::string& s : said)
    CHECK(s.find("make a new one on every rank after append()") != std::string::npos);
}

TEST_CASE("facts tell columns, ids, storage types and arguments apart") {
  LossScaler scaler;
  Layout mine;
  mine.add({.elements = 4});
  Step step(make_recipe("adamw", recipe(Clip::l2)), mine, Device::interpreter(),
            {.scaler = &scaler});
  auto text = [&](const TensorSpec& spec, double lr = 1e-3) {
    Layout whole;
    whole.add(spec);
    Args args = step.make_args();
    args.set("lr", lr);
    std::string all;
    for (const Fact& f : facts_of(step, whole, args)) all += f.name + "\n" + f.text + "\n";
    return all;
  };
  TensorSpec plain{.name = "a", .elements = 4};
  CHECK(text(plain) == text(plain));
  CHECK(text(plain) == text({.name = "a", .elements = 4, .columns = 4, .id = 0}));
  CHECK(text(plain) != text({.name = "a", .elements = 4, .columns = 2}));
  CHECK(text(plain) != text({.name = "a", .elements = 4, .id = 7}));
  CHECK(text(plain) != text({.name = "a", .elements = 4, .dtypes = {{"grad", DType::f16}}}));
  CHECK(text(plain) != text(plain, 2e-3));
}

TEST_CASE("the norm of 16,384 ranks has one device's bits when its pieces are folded") {
  NEEDS_LLVM();
  // Each rank has two small tensors: 32,768 pieces, which one device folds in two rounds.
  constexpr size_t kRanks = 16384, kElements = 5;
  std::vector<float> gradient(kRanks * 2 * kElements), weight(gradient.size());
  for (size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = std::sin(static_cast<float>(i)) * std::exp(static_cast<float>(i % 23) - 11);
  Program program = make_recipe("sgd", {.clip = Clip::l2, .all_reduce = true});
  auto make = [&](size_t tensors) {
    Layout layout;
    for (size_t t = 0; t < tensors; ++t) layout.add({.elements = kElements});
    Step step(program, layout, Device::cpu(1), {.observe = true});
    step.prepare();
    std::vector<void*> pointers;
    for (size_t t = 0; t < tensors; ++t) pointers.push_back(&weight[t * kElements]);
    step.bind_raw("weight", pointers);
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
    rank.observe(Tensor{0}, g, rank.make_args());
    Partials partials = rank.partials();
    const Partial& p = partials.at("sum");
    REQUIRE(p.piece_count == 2);
    for (size_t i = 0; i < 2; ++i)
      pieces.push_back(Bits::of(static_cast<const float*>(p.pieces)[i]));
    rank.reduce(g, rank.make_args());
    in_order += value_of(rank);
  }
  CHECK(fold_values(Op::reduce_add, DType::f32, pieces).f32() == want);
  // Adding the ranks' sums in rank order gives a slightly different number.
  CHECK(in_order != want);
  CHECK(in_order == doctest::Approx(want).epsilon(1e-4));
}
