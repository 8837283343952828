// Prints a KernelPlan: `stepfuse dump --emit=plan`. Knows the plan and fmt.
#include <fmt/format.h>

#include <stepfuse/printer.hpp>

#include "compiler/plan/plan.hpp"

namespace stepfuse::plan {
namespace {

std::string_view place(Granularity d) { return info(d).name; }

class Printer {
 public:
  Printer(const KernelPlan& plan, Comments comments) : plan_(plan), comments_(comments) {}

  std::string run() {
    line(0, "plan of @{}, form {}", plan_.name, stepfuse::name(plan_.form));
    for (size_t s = 0; s < plan_.signatures.size(); ++s) {
      line(0, "signature {}: {}", s, plan_.signatures[s]);
    }
    print_declarations();
    for (const Kernel& k : plan_.kernels) {
      line(0, "kernel {}", k.name);
      for (int32_t i = k.first_phase; i < k.end(); ++i) {
        if (i > k.first_phase) line(1, "barrier");
        print_phase(plan_.phase(i));
      }
    }
    print_finish();
    return std::move(out_);
  }

 private:
  template <class... Args>
  void line(size_t depth, fmt::format_string<Args...> format, Args&&... args) {
    out_ += std::string(2 * depth, ' ') + fmt::format(format, std::forward<Args>(args)...) + '\n';
  }
  // Adds the step's line to the line that was printed last.
  void comment(std::string_view step_line) {
    if (comments_ == Comments::none) return;
    out_.pop_back();
    out_ += fmt::format("  ; {}\n", step_line);
  }
  void comment_reduction(int32_t r) { comment(plan_[plan_.reduction(r).value].text); }
  std::string operand(Id v) const {
    const Value& value = plan_[v];
    return value.is_constant ? literal_text(value.literal, value.dtype) : value.name;
  }

  void print_declarations() {
    std::string tensors;
    if (uint32_t n = plan_.args.tensor_words) tensors = fmt::format(", {} of each tensor", n);
    line(0, "arguments: {} words of the step, {} of each group{}", plan_.args.step_words,
         plan_.args.group_words, tensors);
    for (size_t i = 0; i < plan_.states.size(); ++i) {
      const State& s = plan_.states[i];
      line(0, "state {} {}: {} per {}{}", i, s.text, stepfuse::name(s.dtype), place(s.at),
           s.shared ? ", shared" : "");
    }
    for (const Table& t : plan_.tables)
      line(0, "table {} {}: {} codes, {}", t.name, t.text, t.values.size(),
           t.guess ? fmt::format("guessed by {} lines", t.guess->slopes.size()) : "searched");
    for (const Array& a : plan_.arrays) {
      if (a.scratch()) line(0, "{} {}: {} bytes per element", a.text, a.name, a.max_bytes);
      if (a.owner > Array::Owner::scratch) line(0, "{} {}: {}", a.text, a.name, source_of(a));
    }
    for (size_t i = 0; i < plan_.reductions.size(); ++i) {
      const Reduction& r = plan_.reductions[i];
      std::string parts = r.partials ? fmt::format("{}, partition {}{}", place(r.to), r.partition,
                                                   r.first_level ? ", first level" : "")
                                     : granularity_name(r.to);
      line(0, "reduction {} {}: {} of {}, {} -> {}", i, operand(r.value), info(r.op).name,
           stepfuse::name(r.dtype), place(r.from), parts);
      comment_reduction(static_cast<int32_t>(i));
    }
  }

  std::string source(const Inst& inst, const std::vector<ArrayUse>* arrays) const {
    switch (inst.op) {
      case Op::arg:
        return fmt::format("arg word {}", inst.index);
      case Op::read:
        return fmt::format("read state {}", inst.index);
      case Op::load:
        return "load " + array((*arrays)[static_cast<size_t>(inst.index)]);
      case Op::lookup:
      case Op::nearest:
        return fmt::format("{} {} of", info(inst.op).name, plan_.table(inst).name);
      default:
        return inst.is_result() ? fmt::format("result {}", inst.index)
                                : std::string(info(inst.op).name);
    }
  }
  static std::string source_of(const Array& a) {
    if (a.owner == Array::Owner::state) return fmt::format("state {}, by columns", a.index);
    if (a.owner == Array::Owner::partial) {
      return fmt::format("slots of reduction {}, by strips and columns", a.index);
    }
    return fmt::format("results of reduction {}, by {}", a.index,
                       is_tile(a.at) ? "squares" : "columns");
  }
  std::string array(const ArrayUse& use) const { return plan_.array(use).name; }
  const std::string& array(int32_t index) const {
    return plan_.arrays[static_cast<size_t>(index)].name;
  }

  void print_code(size_t depth, std::string_view title, std::span<const Inst> code,
                  const std::vector<ArrayUse>* arrays = nullptr, int32_t in_level = 0) {
    if (code.empty()) return;
    if (!title.empty()) line(depth++, "{}", title);
    for (const Inst& inst : code) {
      std::string text = source(inst, arrays);
      for_each_operand(inst, [&, first = true](Id o) mutable {
        text += (first ? " " : ", ") + operand(o);
        first = false;
      });
      std::string from = inst.in == inst.out ? "" : fmt::format("{} -> ", stepfuse::name(inst.in));
      int32_t block = block_of(plan_[inst.value].at);
      std::string blocks = block > 1 ? fmt::format(" of {} elements", block) : "";
      std::string level = in_level > 0 ? fmt::format(", level {}", in_level) : "";
      line(depth, "{} = {} : {}{}{}{}", operand(inst.value), text, from, stepfuse::name(inst.out),
           blocks, level);
      comment(plan_[inst.value].text);
    }
  }
  void print_uniform(size_t depth, const Uniform& code) {
    for (const Level<Inst>& level : code) {
      print_code(depth, level.at == per::step ? "once" : fmt::format("per {}", place(level.at)),
                 level.code);
    }
  }

  void print_phase(const Phase& phase) {
    line(1, "phase {}", phase.name);
    print_uniform(2, phase.uniform);
    std::string guard =
        phase.guards == Guard::none
            ? ""
            : fmt::format(", if {}{}", operand(phase.guard),
                          phase.guards == Guard::launch ? ", else no chunk is looked at" : "");
    for (const Body& b : phase.bodies) print_body(guard, b);
    for (const Body& b : phase.otherwise) print_body(", otherwise", b);
    for (const Work& w : phase.work) {
      if (w.rollup != kNone) print_rollup(phase.rollups[static_cast<size_t>(w.rollup)], w.by_all);
      for (int32_t r : w.folds) print_fold(r, w.by_all);
      if (w.arranges) print_arrangements();
    }
  }

  static std::string_view shared(bool by_all) { return by_all ? ", by all blocks" : ""; }

  void print_rollup(const Rollup& rollup, bool by_all) {
    line(2, "roll up {} values{}", place(rollup.from), shared(by_all));
    print_uniform(3, rollup.uniform);
    for (const Combine& c : rollup.reductions) {
      line(3, "slot of reduction {} = {}", c.reduction, operand(c.operand));
      comment_reduction(c.reduction);
    }
  }

  void print_fold(int32_t r, bool by_all) {
    line(2, "fold reduction {}{}", r, shared(by_all));
    comment_reduction(r);
  }

  void print_arrangements() {
    for (const Arrangement& a : plan_.arrangements) {
      line(2, "arrange {}, by all blocks", array(a.to));
      comment(a.text);
    }
  }

  void print_body(const std::string& guard, const Body& body) {
    std::string units = body.unit > 1 ? fmt::format(", in units of {}", body.unit) : "";
    line(2, "per element of signature {}{}{}", fmt::join(body.signatures, ", "), guard, units);
    for (const ArrayUse& a : body.arrays) {
      Granularity at = plan_.array(a).at;
      std::string blocks = block_of(at) == 1 ? ""
                           : needs_rows(at)  ? fmt::format(" per {}", granularity_name(at))
                                             : fmt::format(" of {} elements", at.columns);
      line(3, "array {} : {}{}{}{}{}{}", array(a), stepfuse::name(a.dtype), blocks,
           a.loaded ? ", loaded" : "", a.stored ? ", stored" : "", a.predicated ? " in part" : "",
           a.loaded_later ? ", loaded later" : "");
    }
    for (const Pass& p : body.passes) print_code(3, "", body.code_of(p), &body.arrays, p.level);
    for (const Combine& c : body.reductions) {
      line(3, "combine {} into reduction {}", operand(c.operand), c.reduction);
      comment_reduction(c.reduction);
    }
    for (const Store& s : body.stores) {
      const ArrayUse& a = body.arrays[static_cast<size_t>(s.array)];
      std::string narrowed = s.from == a.dtype ? ""
                                               : fmt::format(" : {} -> {}", stepfuse::name(s.from),
                                                             stepfuse::name(a.dtype));
      std::string condition = s.predicate == kNone ? "" : " if " + operand(s.predicate);
      line(3, "store {}, {}{}{}", array(a), operand(s.value), narrowed, condition);
      comment(s.text);
    }
  }

  void print_finish() {
    line(0, "finish");
    print_code(1, "once", plan_.finish.step);
    for (const Writes& block : plan_.finish.writes) {
      line(1, "states per {}", place(block.at));
      print_uniform(2, block.code);
      for (const Write& w : block.writes) {
        std::string condition = w.predicate == kNone ? "" : " if " + operand(w.predicate);
        line(2, "write state {}, {}{}", w.state, operand(w.value), condition);
        comment(w.text);
      }
    }
    if (!plan_.finish.reports.empty()) {
      line(1, "report states {}", fmt::join(plan_.finish.reports, ", "));
    }
  }

  const KernelPlan& plan_;
  Comments comments_;
  std::string out_;
};

}  // namespace

std::string print(const KernelPlan& plan, Comments comments) {
  return Printer(plan, comments).run();
}

}  // namespace stepfuse::plan
