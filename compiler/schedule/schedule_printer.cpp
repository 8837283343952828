// Prints a Schedule: `stepfuse dump --emit=schedule`. Knows ir and fmt.
#include <fmt/format.h>

#include <stepfuse/printer.hpp>

#include "compiler/schedule/schedule.hpp"

namespace stepfuse {
namespace {

class SchedulePrinter {
 public:
  explicit SchedulePrinter(const Schedule& s) : s_(s), p_(s.program) {}

  std::string run() {
    line(0, "schedule of @{}, form {}", p_.name, name(s_.form));
    for (size_t i = 0; i < s_.signatures.size(); ++i) {
      std::string types;
      for (size_t b = 0; b < p_.buffers.size(); ++b) {
        types += fmt::format(" @{}={}", p_.buffers[b].name, name(s_.signatures[i][b]));
      }
      line(0, "signature {}:{}", i, types);
    }
    for (size_t i = 0; i < s_.scratch.size(); ++i) {
      line(0, "scratch {} : {}", i, print_type(p_, s_.scratch[i]));
    }
    for (const Kernel& k : s_.kernels) {
      line(0, "kernel {}", k.name);
      for (int32_t i = 0; i < k.phase_count; ++i) {
        if (i > 0) line(1, "grid barrier");
        print_phase(s_.phases[static_cast<size_t>(k.first_phase + i)]);
      }
    }
    line(1, "finish");
    print_uniform(2, s_.finish.uniform);
    for (ValueId v : s_.finish.writes) line(2, "{}", print_inst(p_, v));
    return std::move(out_);
  }

 private:
  template <class... Args>
  void line(size_t depth, fmt::format_string<Args...> format, Args&&... args) {
    out_ += std::string(2 * depth, ' ') + fmt::format(format, std::forward<Args>(args)...) + '\n';
  }
  std::string value(ValueId v) const { return "%" + p_.names[static_cast<size_t>(v)]; }

  void print_code(size_t depth, std::string_view title, const std::vector<ValueId>& code) {
    if (code.empty()) return;
    line(depth, "{}", title);
    for (ValueId v : code) {
      std::string result = is_folded(p_[v]) ? "  // folded result" : "";
      line(depth + 1, "{}{}", print_inst(p_, v), result);
    }
  }
  void print_uniform(size_t depth, const UniformCode& code) {
    for (const Level<ValueId>& level : code) {
      std::string title = fmt::format("per {}", info(level.at).name);
      print_code(depth, level.at == per::step ? "once" : title, level.code);
    }
  }
  std::string place(const Crossing& k) const {
    return k.scratch >= 0 ? fmt::format("scratch {}", k.scratch)
                          : "@" + p_.buffers[static_cast<size_t>(k.buffer)].name;
  }

  void print_phase(const Phase& phase) {
    line(1, "phase {}", phase.name);
    print_uniform(2, phase.uniform);
    if (phase.guard != kNoValue) {
      print_body(fmt::format("per element, if {}", value(phase.guard)), phase.body);
      if (!phase.otherwise.empty()) print_body("per element, otherwise", phase.otherwise);
    } else if (!phase.is_empty()) {
      print_body("per element", phase.body);
    }
    for (const Rollup& rollup : phase.rollups) {
      line(2, "roll up {} values", info(rollup.from).name);
      print_uniform(3, rollup.uniform);
      for (ValueId r : rollup.reductions) line(3, "{}", print_inst(p_, r));
    }
  }

  void print_body(std::string_view title, const Body& body) {
    line(2, "{}", title);
    for (const Crossing& k : body.fetches) line(3, "{} = fetch {}", value(k.value), place(k));
    for (ValueId v : body.code) line(3, "{}", print_inst(p_, v));
    for (ValueId r : body.reductions) line(3, "{}", print_inst(p_, r));
    for (const StoreAction& a : body.stores) {
      const Inst& inst = p_[a.store];
      std::string condition = a.predicate == kNoValue ? "" : " if " + value(a.predicate);
      line(3, "store @{}, {}{}", p_.buffers[static_cast<size_t>(inst.slot)].name,
           value(inst.operands[0]), condition);
    }
    for (const Crossing& k : body.keeps) line(3, "keep {}, {}", place(k), value(k.value));
  }

  const Schedule& s_;
  const Program& p_;
  std::string out_;
};

}  // namespace

std::string print(const Schedule& schedule) { return SchedulePrinter(schedule).run(); }

}  // namespace stepfuse
