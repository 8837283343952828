// Counts what random programs are made of. Knows ir and the passes.
#include "tests/differential/coverage.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <stepfuse/printer.hpp>

#include "compiler/passes/passes.hpp"
#include "compiler/plan/code_guess.hpp"
#include "compiler/schedule/analysis.hpp"
#include "ir/formats/code_table.hpp"

namespace stepfuse::testing {
namespace {

std::string reduction_name(Granularity from, Granularity to) {
  return fmt::format("{} to {}", info(from).name, info(to).name);
}

// Every feature that must be seen, so that one never seen is missed as well.
std::map<std::string, std::map<std::string, int>> all_features() {
  std::map<std::string, std::map<std::string, int>> all;
  for (const OpInfo& o : all_ops()) {
    if (o.op != Op::stage) all["op"][std::string(o.name)] = 0;
  }
  for (int t = 0; t < kDTypeCount; ++t) {
    for (const NamedGranularity& d : kGranularities) {
      auto dtype = static_cast<DType>(t);
      bool wide = dtype == DType::f64 || dtype == DType::i64;
      if (wide && is_of_elements(d.at)) continue;  // rule V4
      all["type"][fmt::format("{} {}", d.name, name(dtype))] = 0;
    }
  }
  all["type"]["element bound"] = 0;
  for (const NamedGranularity& d : kGranularities) {
    all["store predicate"][std::string(d.name)] = 0;
    if (is_tile(d.at)) continue;
    all["write predicate"][std::string(d.name)] = 0;
    all["written state"][std::string(d.name)] = 0;
    all["read state"][std::string(d.name)] = 0;
  }
  for (const NamedGranularity& from : kGranularities) {
    for (const NamedGranularity& to : kGranularities) {
      if (to.at != from.at && broadcasts(to.at, from.at))
        all["reduction"][reduction_name(from.at, to.at)] = 0;
    }
  }
  for (Granularity tile : kTiles) {
    if (tile.rows > 1) all["square"][tile_text(tile)] = 0;
    for (Op op : {Op::reduce_add, Op::reduce_max, Op::reduce_min, Op::reduce_any}) {
      if (tile.rows == 1) all["block"][fmt::format("{} of {}", info(op).name, tile.columns)] = 0;
    }
  }
  for (const char* kind : {"block", "square"}) {
    for (const char* f : {"loaded", "stored", "stored in part"}) all[kind][f] = 0;
  }
  for (Op op : {Op::reduce_add, Op::reduce_max, Op::reduce_min, Op::reduce_any}) {
    all["square"][std::string(info(op).name)] = 0;
  }
  for (const char* f : {"guessed", "searched"}) all["nearest"][f] = 0;
  for (int n = 1; n <= 5; ++n) all["reductions"][std::to_string(n)] = 0;
  // Reductions of what other reductions gave: 0 is a step without any.
  for (int n = 0; n <= 2; ++n) all["reduction levels"][std::to_string(n)] = 0;
  for (const char* f : {"stage",
                        "shared state",
                        "report",
                        "bound buffer",
                        "several signatures",
                        "absent tensor",
                        "empty tensor",
                        "one-element tensor",
                        "several pieces",
                        "misaligned tensor",
                        "shard",
                        "several groups",
                        "no tensor",
                        "special inputs",
                        "normal inputs",
                        "buffer of some sizes",
                        "buffer that a tensor has not",
                        "select by size",
                        "blocks in rows",
                        "buffer of blocks in several rows",
                        "random numbers in rows",
                        "random numbers in a row that begins anywhere"}) {
    all["program with"][f] = 0;
  }
  return all;
}

}  // namespace

void Coverage::count(const Program& full, const TestLayout& layout, Inputs inputs) {
  if (seen_.empty()) seen_ = all_features();
  ++programs_;
  Program program = remove_dead(full);
  int reductions = 0;
  bool stage = false;
  for (const Inst& inst : program.insts) {
    reductions += is_folded(inst) ? 1 : 0;
    stage |= inst.op == Op::stage;
    if (inst.op != Op::stage) count_inst(program, inst);
  }
  std::vector<int> levels = reduction_levels(program);
  int deepest = levels.empty() ? 0 : *std::max_element(levels.begin(), levels.end());
  ++seen_["reduction levels"][std::to_string(deepest)];
  if (reductions > 0) ++seen_["reductions"][std::to_string(reductions)];
  auto with = [&](const char* feature, bool is) {
    if (is) ++seen_["program with"][feature];
  };
  auto any_tensor = [&](auto test) {
    return std::any_of(layout.tensors.begin(), layout.tensors.end(), test);
  };
  using T = const LayoutTensor&;
  auto selects_by_size = [&](const Inst& inst) {
    if (inst.op != Op::select || !is_of_elements(inst.type.at)) return false;
    const Inst& condition = program[inst.operands[0]];
    return condition.op == Op::lt && program[condition.operands[0]].op == Op::element_count;
  };
  bool rows = has_rows(program);
  bool draws = std::any_of(program.insts.begin(), program.insts.end(),
                           [](const Inst& inst) { return inst.op == Op::random; });
  with("blocks in rows",
       rows && std::any_of(program.insts.begin(), program.insts.end(),
                           [](const Inst& i) { return block_of(i.type.at) > 1; }));
  bool block_buffers = std::any_of(program.buffers.begin(), program.buffers.end(),
                                   [](const Buffer& b) { return block_of(b.at) > 1; });
  auto several_rows = [](T t) { return t.columns != 0 && t.size > t.columns; };
  with("buffer of blocks in several rows", rows && block_buffers && any_tensor(several_rows));
  with("random numbers in rows", rows && draws && any_tensor(several_rows));
  with("random numbers in a row that begins anywhere",
       rows && draws && any_tensor([&](T t) { return several_rows(t) && t.columns % 4 != 0; }));
  auto any_state = [&](auto test) {
    return std::any_of(program.states.begin(), program.states.end(), test);
  };
  with("stage", stage);
  with("shared state", any_state([](const State& s) { return s.shared; }));
  with("report", any_state([](const State& s) { return s.report; }));
  with("bound buffer", std::any_of(program.buffers.begin(), program.buffers.end(),
                                   [](const Buffer& b) { return b.dtypes.size() > 1; }));
  with("buffer of some sizes", std::any_of(program.buffers.begin(), program.buffers.end(),
                                           [](const Buffer& b) { return !b.is_of_all(); }));
  with("buffer that a tensor has not", any_tensor([&](T t) {
         const Signature& s = layout.signatures[static_cast<size_t>(t.signature)];
         return t.size > 0 && std::find(s.begin(), s.end(), DType::absent) != s.end();
       }));
  with("select by size", std::any_of(program.insts.begin(), program.insts.end(), selects_by_size));
  with("several signatures",
       any_tensor([&](T t) { return t.signature != layout.tensors[0].signature; }));
  with("absent tensor", any_tensor([](T t) { return !t.present && t.size > 0; }));
  with("empty tensor", any_tensor([](T t) { return t.size == 0; }));
  with("one-element tensor", any_tensor([](T t) { return t.size == 1; }));
  with("several pieces", any_tensor([](T t) { return t.size > 16384; }));
  with("misaligned tensor", any_tensor([](T t) { return t.shift % 8 != 0; }));
  with("shard", any_tensor([](T t) { return t.offset > 0; }));
  with("position over 2^31", any_tensor([](T t) { return t.offset >> 31 != 0; }));
  with("several groups", layout.group_count > 1);
  with("no tensor", layout.tensors.empty());
  with(inputs == Inputs::special ? "special inputs" : "normal inputs", true);
}

void Coverage::count_inst(const Program& program, const Inst& inst) {
  ++seen_["op"][std::string(info(inst.op).name)];
  auto granularity = [](Type t) { return std::string(info(t.at).name); };
  auto state = [&] { return program.states[static_cast<size_t>(inst.slot)].type; };
  if (!is_effect(inst.op)) {
    ++seen_["type"][fmt::format("{} {}", granularity(inst.type), name(inst.type.dtype))];
  }
  if (reduces_blocks(inst)) {
    ++seen_["block"][fmt::format("{} of {}", info(inst.op).name, block_of(inst.type.at))];
  } else if (is_reduction(inst.op) && is_tile(inst.type.at)) {
    ++seen_["square"][std::string(info(inst.op).name)];
    ++seen_["square"][tile_text(inst.type.at)];
  } else if (is_reduction(inst.op)) {
    Granularity from = program[inst.operands[0]].type.at;
    ++seen_["reduction"][reduction_name(from, inst.type.at)];
  }
  if (inst.op == Op::nearest) {
    std::vector<float> bounds = table_bounds(program.tables[static_cast<size_t>(inst.slot)].values);
    ++seen_["nearest"][plan::guess_of(bounds) ? "guessed" : "searched"];
  }
  bool memory = inst.op == Op::load || inst.op == Op::store;
  if (memory && program.buffers[static_cast<size_t>(inst.slot)].at != per::element) {
    bool square = needs_rows(program.buffers[static_cast<size_t>(inst.slot)].at);
    bool part = inst.predicate != kNoValue && block_of(program[inst.predicate].type.at) > 1;
    ++seen_[square ? "square" : "block"][inst.op == Op::load ? "loaded"
                                         : part              ? "stored in part"
                                                             : "stored"];
  }
  if (inst.op == Op::read) ++seen_["read state"][granularity(state())];
  if (inst.op == Op::write) ++seen_["written state"][granularity(state())];
  if (inst.predicate != kNoValue) {
    ++seen_[fmt::format("{} predicate", info(inst.op).name)]
           [granularity(program[inst.predicate].type)];
  }
}

void Coverage::add(const Coverage& other) {
  programs_ += other.programs_;
  for (const auto& [group, features] : other.seen_) {
    for (const auto& [feature, count] : features) seen_[group][feature] += count;
  }
}

std::vector<std::string> Coverage::lacking(int least) const {
  std::vector<std::string> out;
  for (const auto& [group, features] : all_features()) {
    for (const auto& [feature, none] : features) {
      auto it = seen_.find(group);
      int count = it != seen_.end() && it->second.contains(feature) ? it->second.at(feature) : none;
      if (count < least) out.push_back(fmt::format("{} {}: {}", group, feature, count));
    }
  }
  return out;
}

std::string Coverage::report() const {
  std::string out = fmt::format("coverage of {} random programs (live code only)\n", programs_);
  for (const auto& [group, features] : seen_) {
    out += fmt::format("  {:<16}", group);
    for (const auto& [feature, count] : features) out += fmt::format(" {} {},", feature, count);
    out.back() = '\n';
  }
  return out;
}

}  // namespace stepfuse::testing
