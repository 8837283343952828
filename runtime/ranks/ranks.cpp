// Exchanges data between ranks, between the phases of a step. Knows the runtime's parts, the order of
// reductions and xxHash.
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

#include "ir/semantics/reduction.hpp"
#include "runtime/process/hidden.hpp"
#include "runtime/step/internals.hpp"
#include "runtime/step/step_impl.hpp"

namespace stepfuse {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorKind::usage, why); }

template <class T>
std::vector<T> gather(Collectives& ranks, const std::vector<T>& mine) {
  std::vector<T> all(mine.size() * static_cast<size_t>(ranks.size()));
  ranks.all_gather(mine.data(), all.data(), mine.size() * sizeof(T), {});
  return all;
}

std::string layout_text(const Layout& layout) {
  std::string text;
  for (size_t i = 0; i < layout.size(); ++i) {
    const TensorSpec& t = layout.tensors()[i];
    text += fmt::format("{} {} group {} columns {} id {}", t.name, t.elements, t.group,
                        t.column_count(), t.id.value_or(static_cast<uint32_t>(i)));
    for (const auto& [buffer, dtype] : t.dtypes) text += fmt::format(" {}:{}", buffer, name(dtype));
    text += '\n';
  }
  return text;
}

// Returns the bits of every argument per step or group, which must agree between ranks. Per-tensor
// arguments may differ, because a rank has its own tensors.
std::string args_text(const Step::Impl& step, const Args& args) {
  std::string text;
  for (size_t i = 0; i < step.program.args.size(); ++i) {
    const Arg& arg = step.program.args[i];
    if (arg.type.at.scope == Scope::tensor) continue;
    text += arg.name;
    for (size_t m = 0; m < member_count(arg.type.at, step.plan->layout); ++m) {
      text += fmt::format(" {:x}", step.arg_bits(args, i, m).raw);
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::vector<Fact> facts_of(const Step& step, const Layout& whole) {
  return {{"version", stepfuse_version()},
          {"program", print(step.program())},
          {"layout", layout_text(whole)}};
}

std::vector<Fact> facts_of(const Step& step, const Layout& whole, const Args& args) {
  std::vector<Fact> facts = facts_of(step, whole);
  facts.push_back({"arguments", args_text(Internals::of(step), args)});
  return facts;
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
      said += fmt::format("rank {} has a different {} from rank {}; ", fmt::join(some, ", "),
                          facts[f].name, fmt::join(most->second, ", "));
    }
  }
  if (!said.empty()) refuse(said + "give all ranks the same step and options before the first run");
}

void share_partials(const Step& step, Collectives& ranks, Stream stream) {
  Partials partials = step.partials();
  if (partials.all.empty()) return;
  for (const Partial& p : partials.all) {
    if (p.name.starts_with("layer_")) {
      refuse(
          fmt::format("'{}' belongs to a report per tensor, and tensors may differ between ranks: "
                      "make the recipe without layer_norms and check_updates",
                      p.name));
    }
    if (p.dtype == DType::f32 && (p.op == Reduction::add || p.op == Reduction::max)) continue;
    refuse(fmt::format("'{}' is neither a sum nor a maximum of f32, which ranks exchange: {}",
                       p.name,
                       p.pipeline ? "make the recipe with all_reduce"
                                  : "take a formula that reduces by sum, mean, norm or max"));
  }
  // Adjacent partials with the same operation share a message. In a recipe whose formula has no reductions
  // of its own, all do.
  float* values = static_cast<float*>(partials.block);
  for (auto first = partials.all.begin(); first != partials.all.end();) {
    auto end = std::find_if(first, partials.all.end(),
                            [&](const Partial& p) { return p.op != first->op; });
    size_t count = 0;
    for (auto p = first; p != end; ++p) count += p->count;
    ranks.all_reduce(values + first->offset / sizeof(float), count, first->op, stream);
    first = end;
  }
}

// A shard, as ranks describe it to each other.
struct Shard {
  uint64_t tensor = 0, offset = 0, size = 0;
  auto operator<=>(const Shard&) const = default;
};

struct STEPFUSE_HIDDEN PieceExchange::Plan {
  Step* step;
  Collectives* ranks;
  // Indices into Partials::all; the other partials stay on this rank.
  std::vector<size_t> exchanged;
  // For one partial: the pieces in the order of one device, as positions in `all`.
  std::vector<size_t> order;
  size_t own = 0;    // number of this rank's pieces
  size_t width = 0;  // largest number of pieces on any rank
  std::vector<char> mine, all;

  Plan(Step& step, const Layout& whole, Collectives& ranks);
  void choose_partials(bool splits);
  void put_in_order(const Layout& whole, const std::vector<std::vector<Shard>>& shards);
};

namespace {

// Returns this rank's shards, in the order of its layout.
std::vector<Shard> own_shards(const Step& step, const Layout& whole) {
  std::map<std::string, uint64_t> index;
  for (const TensorSpec& t : whole.tensors()) {
    if (!index.emplace(t.name, index.size()).second) {
      refuse(fmt::format("two tensors of the whole layout have the name '{}'", t.name));
    }
  }
  std::vector<Shard> shards;
  for (const TensorSpec& t : step.layout().tensors()) {
    auto found = index.find(t.name);
    if (found == index.end()) refuse(fmt::format("the whole layout has no tensor '{}'", t.name));
    uint64_t columns = whole.tensors()[found->second].column_count();
    if (has_rows(step.program()) && t.column_count() != columns) {
      refuse(
          fmt::format("'{}' has rows of {} elements in the step and of {} in the whole layout: "
                      "give both the same columns",
                      t.name, t.column_count(), columns));
    }
    shards.push_back({found->second, t.offset, t.elements});
  }
  return shards;
}

// Returns every rank's shards. A rank that finds a mistake in its own part tells the others, and all throw.
std::vector<std::vector<Shard>> gather_shards(const Step& step, const Layout& whole,
                                              Collectives& ranks) {
  constexpr uint64_t kRefused = ~uint64_t{0};
  std::vector<Shard> mine;
  std::string mistake;
  try {
    if (step.device().kind() != Device::Kind::cpu) {
      refuse("pieces are exchanged between steps of Device::cpu(); on a GPU use share_partials()");
    }
    mine = own_shards(step, whole);
  } catch (const Error& e) {
    mistake = e.what();
  }
  std::vector<uint64_t> counts =
      gather(ranks, std::vector<uint64_t>{mistake.empty() ? mine.size() : kRefused});
  if (!mistake.empty()) refuse(mistake);
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] == kRefused) {
      refuse(fmt::format(
          "rank {} found a mistake in its step or layout; its own message says which", rank));
    }
  }
  mine.resize(*std::max_element(counts.begin(), counts.end()));
  std::vector<Shard> everybody = gather(ranks, mine);
  std::vector<std::vector<Shard>> shards(counts.size());
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    auto begin = everybody.begin() + static_cast<std::ptrdiff_t>(rank * mine.size());
    shards[rank].assign(begin, begin + static_cast<std::ptrdiff_t>(counts[rank]));
    for (const Shard& s : shards[rank]) {
      uint64_t size = s.tensor < whole.size() ? whole.tensors()[s.tensor].elements : 0;
      if (s.tensor >= whole.size() || s.offset > size || s.size > size - s.offset) {
        refuse(fmt::format(
            "rank {} has elements {} to {} of tensor {}, which the whole layout does not have",
            rank, s.offset, s.offset + s.size, s.tensor));
      }
      if (s.size == 0 || s.offset % kPieceElements == 0) continue;
      refuse(
          fmt::format("rank {} has a shard of '{}' that begins at element {}: cut shards at "
                      "multiples of {}",
                      rank, whole.tensors()[s.tensor].name, s.offset, kPieceElements));
    }
  }
  return shards;
}

}  // namespace

PieceExchange::Plan::Plan(Step& s, const Layout& whole, Collectives& r) : step(&s), ranks(&r) {
  agree(r, facts_of(s, whole));
  std::vector<std::vector<Shard>> shards = gather_shards(s, whole, r);
  put_in_order(whole, shards);
  bool splits = false;
  for (const std::vector<Shard>& of_rank : shards) {
    for (const Shard& shard : of_rank) {
      splits |= shard.size != 0 && shard.size != whole.tensors()[shard.tensor].elements;
    }
  }
  choose_partials(splits);
}

// Per-step values combine the pieces of all ranks. Per-tensor values stay on one rank if no tensor is split
// between ranks.
void PieceExchange::Plan::choose_partials(bool splits) {
  const StepPlan& plan = *Internals::of(*step).plan;
  Partials partials = step->partials();
  for (size_t i = 0; i < partials.all.size(); ++i) {
    const Partial& p = partials.all[i];
    Granularity to = plan.kernels().reductions[plan.workspace.partials[i]].to;
    if (to == per::step) {
      check_internal(p.piece_count == own, "pieces are counted otherwise than they are cut");
      exchanged.push_back(i);
    } else if (to == per::group) {
      refuse(fmt::format("'{}' is per group, and ranks exchange only per-step values", p.name));
    } else if (splits) {
      refuse(fmt::format(
          "'{}' is per {}, and some tensors are split between ranks: give each rank whole tensors",
          p.name, info(to).name));
    }
  }
}

void PieceExchange::Plan::put_in_order(const Layout& whole,
                                       const std::vector<std::vector<Shard>>& shards) {
  bool rows = has_rows(step->program());
  auto pieces_of = [&](const Shard& s) {
    return piece_count(s.size, rows ? whole.tensors()[s.tensor].column_count() : 0);
  };
  // Collect every shard with its rank and the index of its first piece on that rank.
  std::vector<std::tuple<Shard, size_t, uint64_t>> all_shards;
  for (size_t rank = 0; rank < shards.size(); ++rank) {
    uint64_t piece = 0;
    for (const Shard& shard : shards[rank]) {
      all_shards.emplace_back(shard, rank, piece);
      piece += pieces_of(shard);
    }
    if (static_cast<int>(rank) == ranks->rank()) own = piece;
    width = std::max(width, static_cast<size_t>(piece));
  }
  std::sort(all_shards.begin(), all_shards.end());
  std::vector<uint64_t> covered(whole.size());
  for (const auto& [shard, rank, first] : all_shards) {
    if (shard.size == 0) continue;
    if (shard.offset != covered[shard.tensor]) {
      refuse(fmt::format(
          "elements {1} to {2} of '{0}' belong to {3}: give each element to one rank",
          whole.tensors()[shard.tensor].name, std::min(shard.offset, covered[shard.tensor]),
          std::max(shard.offset, covered[shard.tensor]),
          shard.offset < covered[shard.tensor] ? "two ranks" : "no rank"));
    }
    covered[shard.tensor] += shard.size;
    for (uint64_t i = 0; i < pieces_of(shard); ++i) order.push_back(rank * width + first + i);
  }
  for (size_t t = 0; t < covered.size(); ++t) {
    if (covered[t] != whole.tensors()[t].elements) {
      refuse(fmt::format("the elements of '{}' from {} on belong to no rank",
                         whole.tensors()[t].name, covered[t]));
    }
  }
}

PieceExchange::PieceExchange(Step& step, const Layout& whole, Collectives& ranks)
    : plan_(std::make_unique<Plan>(step, whole, ranks)) {}
PieceExchange::~PieceExchange() = default;
PieceExchange::PieceExchange(PieceExchange&&) noexcept = default;

void PieceExchange::reduce(Pointers gradients, const Args& args) {
  Plan& plan = *plan_;
  Partials partials = plan.step->partials();
  size_t row = 0;
  for (size_t i : plan.exchanged) {
    if (partials.all[i].piece_count != plan.own) {
      refuse(
          fmt::format("the step has {} pieces, and had {} when this PieceExchange was made: make a "
                      "new one on every rank after append()",
                      partials.all[i].piece_count, plan.own));
    }
    row += plan.width * size_of(partials.all[i].dtype);
  }
  plan.step->observe(Tensor{0}, gradients, args);
  // One exchange transfers all partials: each rank's part holds one partial after the other.
  plan.mine.assign(row, 0);
  plan.all.resize(row * static_cast<size_t>(plan.ranks->size()));
  size_t at = 0;
  for (size_t i : plan.exchanged) {
    const Partial& p = partials.all[i];
    std::memcpy(plan.mine.data() + at, p.pieces, p.piece_count * size_of(p.dtype));
    at += plan.width * size_of(p.dtype);
  }
  plan.ranks->all_gather(plan.mine.data(), plan.all.data(), row, {});
  plan.step->reduce(gradients, args);
  at = 0;
  for (size_t e : plan.exchanged) {
    const Partial& p = partials.all[e];
    size_t size = size_of(p.dtype);
    std::vector<Bits> values(plan.order.size());
    for (size_t i = 0; i < values.size(); ++i) {
      size_t rank = plan.order[i] / plan.width, piece = plan.order[i] % plan.width;
      std::memcpy(&values[i], plan.all.data() + rank * row + at + piece * size, size);
    }
    Bits total = fold_values(op_of(p.op), p.dtype, std::move(values));
    std::memcpy(static_cast<char*>(partials.block) + p.offset, &total, size);
    at += plan.width * size;
  }
}

}  // namespace stepfuse
