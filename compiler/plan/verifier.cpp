// Checks the internal consistency of a KernelPlan; a violation is a bug of ours. Knows the plan, the kernel
// ABI and fmt.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "compiler/abi.hpp"
#include "compiler/plan/plan.hpp"

namespace stepfuse::plan {
namespace {

using Ids = std::set<Id>;

class Verifier {
 public:
  explicit Verifier(const KernelPlan& plan) : plan_(plan) {}

  void run() {
    check_names();
    for (const Reduction& r : plan_.reductions) {
      require(r.from != r.to && broadcasts(r.to, r.from),
              "a reduction goes to a coarser granularity");
      require(r.partials == (is_tile(r.from) ? partials_of(r.to) : r.from),
              "partials follow from granularities");
      require(r.partials || !r.first_level, "ranks exchange nothing that is combined in place");
      require(
          !r.partials || r.partition == abi::partition_index(number_of(r.from), number_of(r.to)),
          "a reduction's partition is that of its granularities");
    }
    for (size_t i = 0; i < plan_.phases.size(); ++i) check_phase(i);
    check_finish();
    require(made_.size() == plan_.reductions.size(), "every reduction is made");
    check_kernels();
  }

 private:
  void require(bool ok, std::string_view what) const {
    if (!ok) internal_error(fmt::format("plan of @{}: not so: {}", plan_.name, what));
  }

  static bool is_word(const std::string& name) {
    return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
  }
  void check_names() const {
    std::set<std::string> seen;
    auto check = [&](const std::string& name) {
      require(is_word(name), "a name is a word");
      require(seen.insert(name).second, "a name is one thing's");
    };
    for (const Value& v : plan_.values) {
      if (!v.name.empty()) check(v.name);  // effects have no name
    }
    for (const Array& a : plan_.arrays) {
      check(a.name);
      require(!a.is_combined() || plan_.base_of(a.at) < plan_.based.size(),
              "what rows are combined in has a base per tensor");
    }
    for (const Table& t : plan_.tables) {
      check(t.name);
      for (const std::string& name : {t.bounds_name, t.slopes_name, t.offsets_name}) check(name);
    }
    seen.clear();
    for (const Kernel& k : plan_.kernels) check(k.name);
  }

  void need(const Ids& known, Id v) const {
    require(v >= 0 && static_cast<size_t>(v) < plan_.values.size(), "an operand is a value");
    require(plan_[v].is_constant || known.contains(v), "an operand is computed before its use");
  }
  void check_code(const std::vector<Inst>& code, Granularity at, Ids* known) const {
    for (const Inst& inst : code) {
      require(inst.in != DType::bound && inst.out != DType::bound, "every type is concrete");
      require(!plan_[inst.value].is_constant, "constants are in no code");
      if (reads_table(inst.op)) {
        require(inst.index >= 0 && static_cast<size_t>(inst.index) < plan_.tables.size(),
                "tables are listed");
      }
      Granularity own = plan_[inst.value].at;
      bool of_element = is_tile(at) && is_of_elements(own);
      require(own == at || of_element, "code is in the list of its granularity");
      if (inst.is_result()) {
        require(plan_.reduction(inst.index).value == inst.value, "a result is its reduction's");
        require(made_.contains(inst.index), "a result is made before its use");
      }
      for_each_operand(inst, [&](Id o) {
        need(*known, o);
        bool spread =
            inst.reduces_block() || block_of(plan_[o].at) >= block_of(plan_[inst.value].at);
        require(!plan_.is_element(o) || spread, "a value is not coarser than its operands");
      });
      known->insert(inst.value);
    }
  }
  Ids check_uniform(const Uniform& code) const {
    Ids known;
    for (const Level<Inst>& level : code) check_code(level.code, level.at, &known);
    return known;
  }

  void check_phase(size_t number) {
    const Phase& phase = plan_.phases[number];
    Ids known = check_uniform(phase.uniform);
    require((phase.guards == Guard::none) == (phase.guard == kNone), "a guard is a value");
    if (phase.guard != kNone) {
      need(known, phase.guard);
      require(!plan_.is_element(phase.guard), "a guard is coarser than elements");
    }
    require(!phase.uniform.has(per::column), "in a phase columns are the elements' code");
    bool skips = phase.guards == Guard::launch;
    require(!skips || (phase.otherwise.empty() && phase.reductions.empty()),
            "what is skipped as a whole leaves nothing to be done");
    check_bodies(phase, phase.bodies, known);
    check_bodies(phase, phase.otherwise, known);
    for (int32_t r : phase.reductions) {
      require(is_tile(plan_.reduction(r).from), "a phase reduces elements");
      require(made_.insert(r).second, "a reduction is made once");
    }
    for (const Rollup& rollup : phase.rollups) check_rollup(rollup);
    check_work(phase);
  }

  void check_rollup(const Rollup& rollup) {
    Ids known = check_uniform(rollup.uniform);
    for (const Combine& c : rollup.reductions) {
      require(plan_.reduction(c.reduction).from == rollup.from, "a rollup has one granularity");
      need(known, c.operand);
    }
    for (const Combine& c : rollup.reductions) {
      require(made_.insert(c.reduction).second, "a reduction is made once");
    }
  }

  void check_work(const Phase& phase) const {
    std::vector<int32_t> folded;
    int32_t rollups = 0;
    for (const Work& w : phase.work) {
      if (w.rollup != kNone) require(w.rollup == rollups++, "rollups are done in order");
      for (int32_t r : w.folds) {
        folded.push_back(r);
        Granularity from = plan_.reduction(r).from;
        require(is_tile(from)
                    ? rollups == 0
                    : rollups > 0 && phase.rollups[static_cast<size_t>(rollups) - 1].from == from,
                "what is folded stands");
      }
    }
    bool arranges = !plan_.arrangements.empty() && &phase == &plan_.phases.back();
    require((!phase.work.empty() && phase.work.back().arranges) == arranges,
            "values are arranged when all are stored");
    require(rollups == static_cast<int32_t>(phase.rollups.size()), "every rollup is done");
    std::vector<int32_t> all = plan_.folded_in(phase);
    for (const Rollup& rollup : phase.rollups) {
      for (const Combine& c : rollup.reductions) all.push_back(c.reduction);
    }
    require(Ids(folded.begin(), folded.end()) == Ids(all.begin(), all.end()) &&
                folded.size() == all.size(),
            "everything is folded once");
  }

  void check_bodies(const Phase& phase, const Bodies& bodies, const Ids& uniform) const {
    if (bodies.empty()) {
      require(phase.reductions.empty() || &bodies == &phase.otherwise,
              "a phase that reduces has bodies");
      return;
    }
    std::set<uint32_t> served;
    for (const Body& body : bodies) {
      for (uint32_t s : body.signatures) {
        require(served.insert(s).second, "a signature has one body");
      }
      check_body(phase, body, uniform);
    }
    require(served.size() == plan_.signatures.size(), "every signature has a body");
  }

  void check_body(const Phase& phase, const Body& body, Ids known) const {
    for (size_t i = 1; i < body.arrays.size(); ++i) {
      require(body.arrays[i - 1].array < body.arrays[i].array, "arrays stand in order, once");
    }
    auto array = [&](int32_t index) -> const ArrayUse& {
      require(index >= 0 && static_cast<size_t>(index) < body.arrays.size(), "arrays are listed");
      return body.arrays[static_cast<size_t>(index)];
    };
    for (const Inst& inst : body.code) {
      if (inst.op != Op::load) continue;
      require(array(inst.index).loaded, "what is loaded is said so");
      require(array(inst.index).dtype == inst.out, "a load has the array's type");
      require(block_of(plan_.array(array(inst.index)).at) == block_of(plan_[inst.value].at),
              "a load has the array's blocks");
    }
    check_code(body.code, per::element, &known);
    check_passes(body);
    std::vector<int32_t> combined;
    for (const Combine& c : body.reductions) {
      combined.push_back(c.reduction);
      need(known, c.operand);
    }
    require(combined == plan_.reductions_in(phase, per::piece),
            "a body makes all reductions of its phase");
    check_lines(phase, body);
    std::set<int32_t> stored;
    for (const Store& s : body.stores) {
      const ArrayUse& a = array(s.array);
      require(a.stored && (s.predicate == kNone || a.predicated), "what is stored is said so");
      require(stored.insert(s.array).second, "an array is stored once");
      need(known, s.value);
      if (s.predicate != kNone) need(known, s.predicate);
    }
  }

  // They are in order, have all of the body, and get what earlier ones keep.
  void check_passes(const Body& body) const {
    size_t next = 0;
    size_t others = 0;
    Ids kept;
    for (const Pass& p : body.passes) {
      require(p.block <= body.unit && (body.unit > 1 || p.level == 0),
              "a body with blocks is done in units");
      require(p.count == 0 || p.first == next, "passes have the code in its order");
      next += p.count;
      others += p.reductions.size() + p.stores.size();
      for (size_t i : p.inputs) {
        require(kept.contains(body.code[i].value), "a pass gets what earlier ones keep");
      }
      for (const Inst& inst : body.code_of(p)) {
        require(block_of(plan_[inst.value].at) == p.block, "a pass has blocks of one size");
        if (inst.reduces_block())
          require(kept.contains(inst.operands[0]), "what is reduced by blocks is kept");
        if (inst.kept) kept.insert(inst.value);
      }
    }
    require(next == body.code.size() && others == body.reductions.size() + body.stores.size(),
            "passes have all of a body");
  }

  // Checks that a body combines rows only in arrays of its own phase's reductions. It only loads the results of earlier
  // phases.
  void check_lines(const Phase& phase, const Body& body) const {
    std::vector<int32_t> combined;
    for (const ArrayUse& use : body.arrays) {
      const Array& a = plan_.array(use);
      if (a.owner == Array::Owner::partial || (a.is_combined() && use.stored)) {
        require(use.loaded && use.stored, "what rows are combined in is loaded and stored");
        combined.push_back(a.index);
      } else if (a.owner == Array::Owner::result) {
        require(made_.contains(a.index), "a result is made before its use");
      }
      bool combines_rows = needs_rows(a.at);
      require(!combines_rows || a.owner != Array::Owner::caller || !use.loaded || !use.stored,
              "row by row, what is stored would be loaded");
      require(!use.stored || is_tile(a.at), "bodies store no values of columns");
    }
    std::vector<int32_t> all;
    for (int32_t r : phase.reductions) {
      if (ordered_rows(plan_.reduction(r).to) > 0) all.push_back(r);
    }
    std::sort(all.begin(), all.end());
    std::sort(combined.begin(), combined.end());
    require(combined == all, "a body makes all reductions of its phase");
  }

  void check_finish() const {
    Ids step;
    check_code(plan_.finish.step, per::step, &step);
    for (size_t i = 0; i < plan_.finish.writes.size(); ++i) {
      const Writes& block = plan_.finish.writes[i];
      require(i == 0 || number_of(plan_.finish.writes[i - 1].at) < number_of(block.at),
              "writes are in the order of granularities, each once");
      Ids known = step;
      for (const Level<Inst>& level : block.code) check_code(level.code, level.at, &known);
      for (const Write& w : block.writes) {
        require(plan_.states[static_cast<size_t>(w.state)].at == block.at,
                "a write is with those of its granularity");
        need(known, w.value);
        if (w.predicate != kNone) need(known, w.predicate);
      }
    }
  }

  void check_kernels() const {
    int32_t next = 0;
    for (const Kernel& k : plan_.kernels) {
      require(k.first_phase == next, "kernels follow each other");
      next = k.end();
    }
    require(next == static_cast<int32_t>(plan_.phases.size()), "every phase is in a kernel");
    require(!plan_.kernels.empty(), "there is a kernel");
  }

  const KernelPlan& plan_;
  std::set<int32_t> made_;  // reductions made so far
};

}  // namespace

void verify(const KernelPlan& plan) { Verifier(plan).run(); }

}  // namespace stepfuse::plan
