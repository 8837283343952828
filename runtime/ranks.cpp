// What ranks tell each other between the phases of a step. Knows the public API, the order of reductions
// and xxHash.
#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/ranks.hpp>
#include <stepfuse/stepfuse.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/reduction.hpp"

namespace stepfuse {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorKind::usage, why); }

template <class T>
std::vector<T> gather(Collectives& ranks, const std::vector<T>& mine) {
  std::vector<T> all(mine.size() * static_cast<size_t>(ranks.size()));
  ranks.all_gather(mine.data(), all.data(), mine.size() * sizeof(T), nullptr);
  return all;
}

std::string layout_text(const Layout& layout) {
  std::string text;
  for (const TensorSpec& t : layout.tensors()) {
    text += fmt::format("{} {} {}\n", t.name, t.size, t.group);
  }
  return text;
}

}  // namespace

std::vector<Fact> facts_of(const Step& step, const Layout& whole) {
  return {{"version", stepfuse_version()},
          {"program", print(step.program())},
          {"layout", layout_text(whole)}};
}

void agree(Collectives& ranks, const std::vector<Fact>& facts) {
  std::vector<uint64_t> mine;
  for (const Fact& f : facts) mine.push_back(XXH3_64bits(f.text.data(), f.text.size()));
  std::vector<uint64_t> all = gather(ranks, mine);
  std::string said;
  for (size_t f = 0; f < facts.size(); ++f) {
    std::map<uint64_t, std::vector<int>> who;
    for (int r = 0; r < ranks.size(); ++r) {
      who[all[static_cast<size_t>(r) * facts.size() + f]].push_back(r);
    }
    if (who.size() == 1) continue;
    auto most = std::max_element(who.begin(), who.end(), [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    });
    for (const auto& [hash, some] : who) {
      if (hash == most->first) continue;
      said += fmt::format("rank {} has another {} than rank {}; ", fmt::join(some, ", "),
                          facts[f].name, fmt::join(most->second, ", "));
    }
  }
  if (!said.empty()) refuse(said + "make all ranks alike before the first step");
}

void share_partials(const Step& step, Collectives& ranks, Stream stream) {
  Partials partials = step.partials();
  if (partials.all.empty()) return;
  Op op = partials.all.front().op;
  for (const Partial& p : partials.all) {
    if (p.dtype != DType::f32 || p.op != op || (op != Op::reduce_add && op != Op::reduce_max)) {
      refuse(
          fmt::format("'{}' cannot share an all-reduce with the step's other reductions: make the "
                      "recipe with all_reduce",
                      p.name));
    }
  }
  ranks.all_reduce(static_cast<float*>(partials.block), partials.bytes / sizeof(float), op, stream);
}

struct PieceExchange::Plan {
  Step* step;
  Collectives* ranks;
  std::vector<size_t> order;  // one device's pieces, by where they stand in `all`, of one partial
  size_t width = 0;           // pieces that a rank has at most
  std::vector<char> mine, all;

  Plan(Step& step, const Layout& whole, Collectives& ranks);
};

// A shard as ranks tell each other of it.
struct Shard {
  uint64_t tensor = 0, offset = 0, size = 0;
  auto operator<=>(const Shard&) const = default;
};

PieceExchange::Plan::Plan(Step& s, const Layout& whole, Collectives& r) : step(&s), ranks(&r) {
  if (s.device().kind() != Device::Kind::cpu) {
    refuse("pieces are exchanged between steps of Device::cpu(); on a GPU use share_partials()");
  }
  for (const Partial& p : s.partials().all) {
    if (p.count != 1)
      refuse(fmt::format("'{}' is not one value, but one for each group or tensor", p.name));
  }
  std::map<std::string, uint64_t> index;
  for (const TensorSpec& t : whole.tensors()) {
    if (!index.emplace(t.name, index.size()).second) {
      refuse(fmt::format("two tensors of the whole are called '{}'", t.name));
    }
  }
  std::vector<Shard> shards;
  for (const TensorSpec& t : s.layout().tensors()) {
    auto found = index.find(t.name);
    if (found == index.end()) refuse(fmt::format("'{}' is no tensor of the whole", t.name));
    shards.push_back({found->second, t.offset, t.size});
  }
  std::vector<uint64_t> counts = gather(r, std::vector<uint64_t>{shards.size()});
  shards.resize(*std::max_element(counts.begin(), counts.end()));
  size_t most = shards.size();
  std::vector<Shard> everybody = gather(r, shards);

  // Every shard with where its first piece stands among its rank's.
  std::vector<std::tuple<Shard, size_t, uint64_t>> all_shards;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    uint64_t piece = 0;
    for (size_t i = 0; i < counts[rank]; ++i) {
      const Shard& shard = everybody[rank * most + i];
      all_shards.emplace_back(shard, rank, piece);
      piece += (shard.size + kPieceElements - 1) / kPieceElements;
    }
    width = std::max(width, static_cast<size_t>(piece));
  }
  std::sort(all_shards.begin(), all_shards.end());
  std::vector<uint64_t> covered(whole.size());
  for (const auto& [shard, rank, first] : all_shards) {
    if (shard.size == 0) continue;
    if (shard.offset != covered[shard.tensor]) {
      refuse(fmt::format("of '{}' elements {} to {} are {}: each element belongs to one rank",
                         whole.tensors()[shard.tensor].name,
                         std::min(shard.offset, covered[shard.tensor]),
                         std::max(shard.offset, covered[shard.tensor]),
                         shard.offset < covered[shard.tensor] ? "two ranks'" : "no rank's"));
    }
    covered[shard.tensor] += shard.size;
    uint64_t pieces = (shard.size + kPieceElements - 1) / kPieceElements;
    for (uint64_t i = 0; i < pieces; ++i) order.push_back(rank * width + first + i);
  }
  for (size_t t = 0; t < covered.size(); ++t) {
    if (covered[t] != whole.tensors()[t].size) {
      refuse(fmt::format("of '{}' the elements from {} on are no rank's", whole.tensors()[t].name,
                         covered[t]));
    }
  }
}

PieceExchange::PieceExchange(Step& step, const Layout& whole, Collectives& ranks)
    : plan_(std::make_unique<Plan>(step, whole, ranks)) {}
PieceExchange::~PieceExchange() = default;
PieceExchange::PieceExchange(PieceExchange&&) noexcept = default;

void PieceExchange::reduce(Pointers gradients, const Args& args) {
  Plan& plan = *plan_;
  plan.step->observe(0, gradients, args);
  Partials partials = plan.step->partials();
  // One exchange for all of them: a partial behind the other in each rank's part.
  size_t row = 0;
  for (const Partial& p : partials.all) row += plan.width * size_of(p.dtype);
  plan.mine.assign(row, 0);
  plan.all.resize(row * static_cast<size_t>(plan.ranks->size()));
  size_t at = 0;
  for (const Partial& p : partials.all) {
    std::memcpy(plan.mine.data() + at, p.pieces, p.piece_count * size_of(p.dtype));
    at += plan.width * size_of(p.dtype);
  }
  plan.ranks->all_gather(plan.mine.data(), plan.all.data(), row, nullptr);
  plan.step->reduce(gradients, args);
  at = 0;
  for (const Partial& p : partials.all) {
    size_t size = size_of(p.dtype);
    std::vector<Bits> values(plan.order.size());
    for (size_t i = 0; i < values.size(); ++i) {
      size_t rank = plan.order[i] / plan.width, piece = plan.order[i] % plan.width;
      std::memcpy(&values[i], plan.all.data() + rank * row + at + piece * size, size);
    }
    Bits total = fold_values(p.op, p.dtype, std::move(values));
    std::memcpy(static_cast<char*>(partials.block) + p.offset, &total, size);
    at += plan.width * size;
  }
}

}  // namespace stepfuse
