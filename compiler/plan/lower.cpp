// Lowers a Schedule: types of each mix of storage types, places of everything in its array, code
// without constants, bodies merged. Knows ir and the schedule.
//
// A program's types are bound late: `[@grad]` is the type that @grad has. The schedule keeps such types, and here every
// signature gets a body in which each array, instruction and store has a concrete one. Bodies that come out equal are
// merged. If small tensors lack a buffer, their signature says so (`DType::absent`): the `select` by size becomes a
// copy, and what it does not choose is dead code.
#include "compiler/plan/lower.hpp"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include <fmt/format.h>

#include <stepfuse/printer.hpp>

#include "compiler/abi.hpp"
#include "compiler/names.hpp"
#include "compiler/plan/lines.hpp"
#include "compiler/schedule/analysis.hpp"
#include "compiler/schedule/tensor_class.hpp"
#include "ir/semantics/reduction.hpp"

namespace stepfuse {

static_assert(abi::kPieceElements == kPieceElements && abi::kLanes == kLanes);
static_assert(abi::kStripRows == kStripRows);

namespace {

// Returns the type that holds a value. Bound values that are not per element are held as f32.
DType held(DType t) { return t == DType::bound ? DType::f32 : t; }

class Lowering {
 public:
  explicit Lowering(const Schedule& s) : s_(s), p_(s.program), lines_(p_) {}

  KernelPlan run() {
    out_.name = p_.name;
    out_.form = s_.form;
    out_.args = ArgLayout(p_.args);
    out_.has_rows = has_rows(p_);
    out_.rows_in_order = rows_in_order(p_);
    out_.based = counted_granularities(p_);
    declare_values();
    declare_arrays();
    declare_arrangements();
    declare_states();
    declare_tables();
    declare_reductions();
    lines_.declare(reduction_, &names_, &out_);
    declare_zeros();
    find_last_loads();
    for (const Phase& phase : s_.phases) out_.phases.push_back(lower_phase(phase));
    for (const Kernel& k : s_.kernels) lower_kernel(k);
    lower_finish();
    count_reduced_phases();
    plan::verify(out_);
    return std::move(out_);
  }

 private:
  // --- declarations

  void declare_values() {
    for (ValueId v = 0; v < p_.size(); ++v) {
      const Inst& inst = p_[v];
      const std::string& given = p_.names[static_cast<size_t>(v)];
      char granularity = info(inst.type.at).name[0];
      std::string name = is_effect(inst.op)
                             ? ""
                             : names_.unique(fmt::format("{}_{}", granularity, identifier(given)));
      out_.values.push_back({std::move(name), print_inst(p_, v), inst.type.at,
                             held(inst.type.dtype), inst.op == Op::constant, inst.literal});
    }
  }

  void declare_arrays() {
    out_.buffer_count = static_cast<int32_t>(p_.buffers.size());
    for (size_t s = 0; s < s_.signatures.size(); ++s) {
      std::string& text = out_.signatures.emplace_back();
      for (size_t b = 0; b < p_.buffers.size(); ++b) {
        text += fmt::format("{}@{}={}", b == 0 ? "" : " ", p_.buffers[b].name,
                            stepfuse::name(s_.signatures[s][b]));
      }
    }
    using Owner = plan::Array::Owner;
    auto add = [&](std::string name, std::string text, Owner owner, size_t index, Granularity at) {
      plan::Array a{names_.unique(std::move(name)),
                    std::move(text),
                    owner,
                    static_cast<int32_t>(index),
                    0,
                    at};
      for (size_t s = 0; s < s_.signatures.size(); ++s) {
        auto bytes = static_cast<uint32_t>(size_of(array_dtype(out_.arrays.size(), s)));
        a.max_bytes = std::max(a.max_bytes, bytes);
      }
      out_.arrays.push_back(std::move(a));
    };
    for (size_t b = 0; b < p_.buffers.size(); ++b) {
      const std::string& given = p_.buffers[b].name;
      add("b_" + identifier(given), "@" + given, Owner::caller, b, p_.buffers[b].at);
    }
    for (size_t i = 0; i < s_.scratch.size(); ++i) {
      add(fmt::format("x_{}", i), fmt::format("scratch {}", i), Owner::scratch, i,
          s_.scratch[i].at);
    }
  }
  void declare_arrangements() {
    for (size_t b = 0; b < p_.buffers.size(); ++b) {
      const Buffer& buffer = p_.buffers[b];
      if (!buffer.order.any()) continue;
      out_.arrangements.push_back(
          {.from = buffer.arranges,
           .to = static_cast<int32_t>(b),
           .dtype = buffer.dtypes.only(),
           .at = buffer.at,
           .order = buffer.order,
           .text = fmt::format("@{}: {}", buffer.name, order_text(p_, buffer))});
    }
  }
  DType array_dtype(size_t array, size_t signature) const {
    size_t buffers = p_.buffers.size();
    if (array >= buffers) return s_.resolve(s_.scratch[array - buffers], signature);
    DType t = s_.signatures[signature][array];
    return t == DType::absent ? p_.buffers[array].dtypes.only() : t;
  }
  int32_t array_of(const Crossing& k) const {
    return k.buffer >= 0 ? k.buffer : out_.buffer_count + k.scratch;
  }

  void declare_tables() {
    for (const Table& t : p_.tables) {
      std::string name = names_.unique("t_" + identifier(t.name));
      auto named = [&](std::string_view part) {
        return names_.unique(fmt::format("{}_{}", name, part));
      };
      plan::Table table = {
          name, named("bounds"), named("slopes"), named("offsets"), "@" + t.name, t.values, {}, {}};
      plan::fill_bounds(&table);
      out_.tables.push_back(std::move(table));
    }
  }

  void declare_states() {
    for (const State& state : p_.states) {
      out_.states.push_back({"@" + state.name, state.type.dtype, state.type.at, state.shared});
    }
    // The states of the step, which have one value each, are first in a record.
    for (bool of_step : {true, false}) {
      for (size_t i = 0; i < p_.states.size(); ++i) {
        bool is_of_step = p_.states[i].type.at == per::step;
        if (!p_.states[i].report || is_of_step != of_step) continue;
        out_.finish.reports.push_back(static_cast<int32_t>(i));
      }
    }
  }

  void declare_reductions() {
    std::vector<int> phase_of = reduction_phases(p_);
    for (ValueId r : s_.reductions) {
      const Inst& inst = p_[r];
      Granularity from = p_[inst.operands[0]].type.at;
      Granularity to = inst.type.at;
      plan::Reduction reduction{
          .value = r, .op = inst.op, .dtype = inst.type.dtype, .from = from, .to = to};
      reduction.partials = is_tile(from) ? partials_of(to) : from;
      if (reduction.partials) {
        reduction.partition = abi::partition_index(number_of(from), number_of(to));
        reduction.first_level = phase_of[static_cast<size_t>(r)] == 0;
      }
      out_.reductions.push_back(reduction);
      reduction_[r] = static_cast<int32_t>(out_.reductions.size() - 1);
    }
  }

  // --- buffers that only some tensors have

  // A load from an absent buffer becomes one of these zeros, cast to the type of the load.
  void declare_zeros() {
    bool of_all = std::all_of(p_.buffers.begin(), p_.buffers.end(),
                              [](const Buffer& b) { return b.is_of_all(); });
    for (DType t : {DType::f32, DType::i32}) {
      if (of_all) return;
      zeros_[t] = static_cast<plan::Id>(out_.values.size());
      out_.values.push_back({.name = names_.unique(fmt::format("s_zero_{}", stepfuse::name(t))),
                             .dtype = t,
                             .is_constant = true});
    }
  }
  bool loads_nothing(ValueId v, size_t s) const {
    return p_[v].op == Op::load &&
           s_.signatures[s][static_cast<size_t>(p_[v].slot)] == DType::absent;
  }
  static plan::Inst copy(plan::Id to, DType t, plan::Id from, DType in) {
    return {.value = to,
            .op = Op::cast,
            .in = in,
            .out = t,
            .operands = {from, plan::kNone, plan::kNone}};
  }

  // --- code that is not per element

  std::vector<plan::Inst> lower_code(const std::vector<ValueId>& code) const {
    std::vector<plan::Inst> out;
    for (ValueId v : code) {
      if (!out_[v].is_constant) out.push_back(lower_inst(v));
    }
    return out;
  }
  plan::Uniform lower_uniform(const UniformCode& code) const {
    plan::Uniform out;
    for (const Level<ValueId>& level : code) out.set(level.at, lower_code(level.code));
    return out;
  }
  plan::Inst lower_inst(ValueId v) const {
    const Inst& inst = p_[v];
    plan::Inst out{.value = v, .op = inst.op, .in = out_[v].dtype, .out = out_[v].dtype};
    if (is_computed(inst.op) || reduces_blocks(inst)) {
      out.operands = inst.operands;
      out.in = out_[inst.operands[plan::deciding_operand(inst.op)]].dtype;
    }
    if (inst.op == Op::arg) {
      out.index = static_cast<int32_t>(out_.args.places[static_cast<size_t>(inst.slot)].word);
    }
    if (inst.op == Op::read || reads_table(inst.op)) out.index = inst.slot;
    if (is_folded(inst)) out.index = reduction_.at(v);
    if (!is_tile(inst.type.at)) drop_rounding(&out);
    return out;
  }
  // Rounding to f32 changes nothing.
  static void drop_rounding(plan::Inst* inst) {
    if (inst->op != Op::cast_sr || inst->out != DType::f32) return;
    inst->op = Op::cast;
    inst->operands = {inst->operands[0], kNoValue, kNoValue};
  }

  // --- bodies

  // Finds the last phase that loads each array.
  void find_last_loads() {
    last_load_.assign(out_.arrays.size(), -1);
    for (size_t i = 0; i < s_.phases.size(); ++i) {
      for (const Body* body : {&s_.phases[i].body, &s_.phases[i].otherwise}) {
        auto load = [&](int32_t array) {
          last_load_[static_cast<size_t>(array)] = static_cast<int>(i);
        };
        for (const Crossing& k : body->fetches) load(array_of(k));
        for (ValueId v : body->code) {
          if (p_[v].op == Op::load) load(p_[v].slot);
        }
      }
    }
  }

  // Makes one body for all signatures whose types are equal in everything that it touches.
  plan::Bodies lower_bodies(const Body& body) const {
    plan::Bodies out;
    if (body.empty()) return out;
    for (size_t s = 0; s < s_.signatures.size(); ++s) {
      plan::Body lowered = lower_body(body_for(s_, body, s), s);
      auto same = std::find_if(out.begin(), out.end(), [&](const plan::Body& b) {
        return b.arrays == lowered.arrays && b.code == lowered.code && b.stores == lowered.stores;
      });
      if (same == out.end()) same = out.insert(same, std::move(lowered));
      same->signatures.push_back(static_cast<uint32_t>(s));
    }
    return out;
  }

  plan::Body lower_body(const Body& body, size_t s) const {
    std::map<int32_t, plan::ArrayUse> uses;
    auto use = [&](int32_t array) -> plan::ArrayUse& {
      auto i = static_cast<size_t>(array);
      auto [it, added] = uses.try_emplace(array);
      bool later = last_load_[i] > static_cast<int>(out_.phases.size());
      if (added) {
        it->second = {.array = array, .dtype = array_dtype(i, s), .loaded_later = later};
      }
      return it->second;
    };
    auto use_columns = [&](int32_t array, DType dtype) -> plan::ArrayUse& {
      return uses.try_emplace(array, plan::ArrayUse{.array = array, .dtype = dtype}).first->second;
    };
    for (const Crossing& k : body.fetches) use(array_of(k)).loaded = true;
    for (ValueId v : body.code) {
      if (p_[v].op == Op::load && !loads_nothing(v, s)) use(p_[v].slot).loaded = true;
      if (int32_t a = lines_.array(v); a >= 0) use_columns(a, p_[v].type.dtype).loaded = true;
    }
    for (ValueId r : body.reductions) {
      if (!lines_.combines(r)) continue;
      plan::ArrayUse& u = use_columns(lines_.so_far(r), p_[r].type.dtype);
      u.loaded = u.stored = true;
    }
    for (const StoreAction& a : body.stores) {
      plan::ArrayUse& u = use(p_[a.store].slot);
      u.stored = true;
      u.predicated = a.predicate != kNoValue;
    }
    for (const Crossing& k : body.keeps) use(array_of(k)).stored = true;

    plan::Body out;
    std::map<int32_t, int32_t> position;  // array -> its position in out.arrays
    for (const auto& [array, u] : uses) {
      position[array] = static_cast<int32_t>(out.arrays.size());
      out.arrays.push_back(u);
    }
    auto load = [&](ValueId v, int32_t array) {
      DType t = s_.dtype_of(v, s);
      out.code.push_back({.value = v, .op = Op::load, .in = t, .out = t, .index = position[array]});
    };
    for (const Crossing& k : body.fetches) load(k.value, array_of(k));
    for (ValueId v : body.code) {
      int32_t array = p_[v].op == Op::load ? p_[v].slot : lines_.array(v);
      if (array >= 0 && !loads_nothing(v, s)) {
        load(v, array);
      } else {
        out.code.push_back(lower_element(v, s));
      }
    }
    for (ValueId r : body.reductions) {
      if (!lines_.combines(r)) out.reductions.push_back({reduction_.at(r), p_[r].operands[0]});
    }
    for (ValueId r : body.reductions) {
      if (lines_.combines(r)) lines_.combine(r, position[lines_.so_far(r)], &out);
    }
    for (const StoreAction& a : body.stores) {
      ValueId v = p_[a.store].operands[0];
      out.stores.push_back(
          {position[p_[a.store].slot], v, operand_dtype(v, s), a.predicate, out_[a.store].text});
    }
    for (const Crossing& k : body.keeps) {
      out.stores.push_back({position[array_of(k)], k.value, operand_dtype(k.value, s), plan::kNone,
                            fmt::format("keep %{}", p_.names[static_cast<size_t>(k.value)])});
    }
    plan::find_passes(out_, &out);
    return out;
  }

  plan::Inst lower_element(ValueId v, size_t s) const {
    DType t = s_.dtype_of(v, s);
    if (loads_nothing(v, s)) {
      DType zero = is_float(t) ? DType::f32 : DType::i32;
      return copy(v, t, zeros_.at(zero), zero);
    }
    if (ValueId one = chosen(s_, v, s); one != kNoValue) return copy(v, t, one, t);
    plan::Inst out = lower_inst(v);
    out.in = out.out = t;
    if (is_computed(out.op) || out.reduces_block())
      out.in = operand_dtype(p_[v].operands[plan::deciding_operand(out.op)], s);
    drop_rounding(&out);
    return out;
  }
  DType operand_dtype(ValueId v, size_t s) const {
    return out_.is_element(v) ? s_.dtype_of(v, s) : out_[v].dtype;
  }

  // --- phases

  plan::Phase lower_phase(const Phase& phase) const {
    plan::Phase out;
    out.name = phase.name;
    out.uniform = lower_uniform(phase.uniform);
    out.guard = phase.guard;
    out.bodies = lower_bodies(phase.body);
    for (std::optional<Granularity> partials :
         {std::optional(per::piece), std::optional(per::strip), {}}) {
      for (ValueId r : phase.body.reductions) {
        int32_t number = reduction_.at(r);
        if (out_.reduction(number).partials == partials) out.reductions.push_back(number);
      }
    }
    if (phase.guard != kNoValue) {
      out.otherwise = lower_bodies(phase.otherwise);
      bool all = out_[phase.guard].at == per::step && out.otherwise.empty();
      out.guards = all ? plan::Guard::launch : plan::Guard::chunk;
    }
    plan::drop_unneeded(&out);
    for (const Rollup& rollup : phase.rollups) {
      plan::Rollup r{rollup.from, lower_uniform(rollup.uniform), {}};
      for (ValueId v : rollup.reductions) {
        r.reductions.push_back({reduction_.at(v), p_[v].operands[0]});
      }
      out.rollups.push_back(std::move(r));
    }
    return out;
  }

  void lower_kernel(const Kernel& k) {
    const plan::Kernel& kernel =
        out_.kernels.emplace_back(plan::Kernel{k.name, k.first_phase, k.phase_count});
    for (int32_t i = kernel.first_phase; i < kernel.end(); ++i) {
      plan::Phase& phase = out_.phases[static_cast<size_t>(i)];
      phase.work = plan::work_behind(out_, kernel, phase);
    }
  }

  void count_reduced_phases() {
    for (size_t i = 0; i < out_.phases.size(); ++i) {
      for (int32_t r : out_.phases[i].reductions) {
        if (out_.reduction(r).first_level) out_.reduced_phases = static_cast<int32_t>(i) + 1;
      }
    }
  }

  // --- the end of the step

  void lower_finish() {
    out_.finish.step = lower_code(s_.finish.uniform.of(per::step));
    for (const NamedGranularity& d : kGranularities) {
      plan::Writes block{.at = d.at};
      for (ValueId w : s_.finish.writes) {
        const Inst& inst = p_[w];
        if (p_.states[static_cast<size_t>(inst.slot)].type.at != d.at) continue;
        block.writes.push_back({inst.slot, inst.operands[0], inst.predicate, out_[w].text});
      }
      if (block.writes.empty()) continue;
      add_code(&block);
      out_.finish.writes.push_back(std::move(block));
    }
  }

  // Adds the part of the finish's code that these writes need.
  void add_code(plan::Writes* block) const {
    std::set<plan::Id> needed;
    for (const plan::Write& w : block->writes) {
      needed.insert(w.value);
      if (w.predicate != plan::kNone) needed.insert(w.predicate);
    }
    for (const NamedGranularity& g : std::views::reverse(kGranularities)) {
      if (g.at == per::step) continue;
      block->code.set(g.at, plan::needed_code(lower_code(s_.finish.uniform.of(g.at)), &needed));
    }
  }

  const Schedule& s_;
  const Program& p_;
  KernelPlan out_;
  UniqueNames names_;
  std::map<ValueId, int32_t> reduction_;  // reduction -> its number
  plan::Lines lines_;
  std::vector<int> last_load_;  // [array]
  std::map<DType, plan::Id> zeros_;
};

}  // namespace

KernelPlan lower(const Schedule& schedule) { return Lowering(schedule).run(); }

}  // namespace stepfuse
