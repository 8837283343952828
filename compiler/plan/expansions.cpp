// Reads expansions/*.sf: each op's lines become a step whose arguments are the operands and whose report
// is the result, so that the language's own parser and verifier read them. Knows ir and the plan.
//
// An expansion is keyed by op and types, and conversions are expansions too. Inside its own expansion an op means the
// machine's instruction, and the other lines mend its edge cases. Tests compare expansions and instructions with
// ir/semantics/semantics.hpp. Loops cannot be expressed: `powi`, and `fma` on machines without one, are helpers of each
// emitter.
#include "compiler/plan/expansions.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <stepfuse/error.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>

#include "compiler/embedded.hpp"
#include "compiler/names.hpp"
#include "compiler/text.hpp"
#include "ir/program/verifier.hpp"
#include "ir/semantics/narrow.hpp"

namespace stepfuse::plan {
namespace {

using Words = std::vector<std::string>;

Words words_of(std::string_view text) {
  Words words;
  bool open = false;
  for (char c : text) {
    bool is_part = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (is_part && !open) words.emplace_back();
    if (is_part) words.back() += c;
    open = is_part;
  }
  return words;
}

// Returns the value of "T.nan" and the like.
uint64_t column(DType t, std::string_view name) {
  const NarrowFormat f(t);
  const DTypeInfo& row = f.row;
  if (name == "nan") return row.nan;
  if (name == "highest") return row.highest;
  if (name == "last") return row.highest - (row.has_infinity() ? 1 : 0);
  if (name == "sign") return row.sign();
  if (name == "unsigned") return row.sign() - 1;
  if (name == "to_top") return static_cast<uint64_t>(31 - row.magnitude_bits());
  if (name == "shift") return f.shift;
  if (name == "below_half") return (uint64_t{1} << (f.shift - 1)) - 1;
  if (name == "rebias") return f.rebias;
  if (name == "smallest_normal") return f.smallest_normal();
  if (name == "subnormal_base") return f.subnormal_base();
  if (name == "smallest") return f.subnormal_base() - (23U << 23);
  if (name == "per_smallest") return (254U << 23) - (f.subnormal_base() - (23U << 23));
  if (name == "fraction_top") return 32 - f.shift;
  internal_error(fmt::format("expansions know no column T.{}", name));
}

// Replaces the word T by `type`, and T.name by a column of its row in hexadecimal.
std::string with_type(std::string_view text, std::string_view type) {
  auto is_part = [&](size_t i) {
    return i < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_');
  };
  auto is_name = [&](size_t i) {  // the word is a value's or buffer's name, or inside of a word
    return is_part(i) || text[i] == '.' || text[i] == '%' || text[i] == '@';
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    bool is_word = text[i] == 'T' && (i == 0 || !is_name(i - 1)) && !is_part(i + 1);
    if (!is_word) {
      out += text[i];
    } else if (!text.substr(i + 1).starts_with('.')) {
      out += type;
    } else {
      size_t end = i + 2;
      while (is_part(end)) ++end;
      out += fmt::format("{:#x}", column(*dtype_from_name(type), text.substr(i + 2, end - i - 2)));
      i = end - 1;
    }
  }
  return out;
}

Program read_step(const std::string& text) {
  Program p = parse_unverified(text, "expansions/*.sf");
  for (const Diagnostic& d : find_violations(p)) {
    // Operands and results may have types that arguments and states cannot have.
    if (d.rule != 14 && d.rule != 15) {
      internal_error(fmt::format("expansion of {}: {} [V{}]", p.name, d.message, d.rule));
    }
  }
  return p;
}

// A part may compute more than its user needs.
void remove_unused(Expansion* e) {
  std::set<Id> used = {e->result};
  for (auto inst = e->code.rbegin(); inst != e->code.rend(); ++inst) {
    if (used.contains(inst->value)) for_each_operand(*inst, [&](Id v) { used.insert(v); });
  }
  std::erase_if(e->code, [&](const Inst& inst) { return !used.contains(inst.value); });
}

// Reads one expansion for concrete types: `types` are those of the operands and, last, of the result.
Expansion read(const std::string& op, const Words& types, const std::string& body) {
  std::string text = fmt::format("step @{} {{\nreport @result : {}\n", op, types.back());
  for (size_t i = 0; i + 1 < types.size(); ++i) {
    text += fmt::format("arg %{} : {}\n", "abc"[i], types[i]);
  }
  Program p = read_step(text + body + "write @result, %result\n}\n");

  Expansion e;
  e.op = *op_from_name(op);
  e.in = *dtype_from_name(types[0]);
  e.out = *dtype_from_name(types.back());
  check_internal(types.size() == static_cast<size_t>(info(e.op).arity) + 1, "as many operands");
  e.name = fmt::format("sf_op_{}_{}_{}", op, types[0], types.back());
  UniqueNames names;
  for (ValueId v = 0; v < p.size(); ++v) {
    const stepfuse::Inst& inst = p[v];
    DType t = inst.type.dtype;
    std::string name = names.unique("v_" + identifier(p.names[static_cast<size_t>(v)]));
    e.values.push_back(
        {std::move(name), print_inst(p, v), per::step, t, inst.op == Op::constant, inst.literal});
    if (inst.op == Op::write) e.result = inst.operands[0];
    if (!is_elementwise(inst.op)) continue;
    e.code.push_back({.value = v,
                      .op = inst.op,
                      .in = p[inst.operands[deciding_operand(inst.op)]].type.dtype,
                      .out = t,
                      .operands = inst.operands});
  }
  remove_unused(&e);
  return e;
}

using Key = std::tuple<Op, DType, DType>;

// The contents of the files: headings "op NAME(types) -> type [: types]" and "part NAME", each followed by
// its lines. Lines are parsed when the op is first asked for, because most kernels need few of them.
class Files {
 public:
  explicit Files(std::string_view text) {
    while (!text.empty()) {
      size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
      std::string_view line = text.substr(0, end);
      if (line.starts_with("op ") || line.starts_with("part ")) {
        finish();
        heading_ = line;
        body_ = text.substr(end, 0);
      } else {
        body_ = {body_.data(), body_.size() + end};
      }
      text.remove_prefix(end);
    }
    finish();
  }

  // Returns null if the op has no expansion for these types.
  const Expansion* find(const Key& key) {
    auto found = index_.find(key);
    return found == index_.end() ? nullptr : get(&sections_[found->second]);
  }
  std::vector<const Expansion*> all() {
    std::vector<const Expansion*> out;
    for (Section& s : sections_) out.push_back(get(&s));
    return out;
  }

 private:
  struct Section {
    ~Section() { delete expansion.load(); }

    Words words;            // "op", its name and its types
    std::string choice;     // the type that replaces T
    std::string_view body;  // lines of the file
    std::atomic<const Expansion*> expansion = nullptr;
  };

  void finish() {
    std::string_view heading = std::exchange(heading_, "");
    if (heading.starts_with("part ")) parts_[words_of(heading)[1]] = body_;
    if (!heading.starts_with("op ")) return;
    size_t colon = std::min(heading.find(':'), heading.size());
    Words choices = words_of(heading.substr(colon));
    if (choices.empty()) choices = {"T"};
    bool is_set = choices[0] == "low" || choices[0] == "signed";
    if (is_set) {
      choices = words_of(names(choices[0] == "low" ? kLowPrecision : kSignedLowPrecision, " "));
    }
    for (std::string& choice : choices) {
      Words words = words_of(with_type(heading.substr(0, colon), choice));
      Key key{*op_from_name(words[1]), *dtype_from_name(words[2]), *dtype_from_name(words.back())};
      bool is_new = index_.emplace(key, sections_.size()).second;
      check_internal(is_new || is_set, "one expansion of an op");
      if (!is_new) continue;
      Section& section = sections_.emplace_back();
      section.words = std::move(words);
      section.choice = std::move(choice);
      section.body = body_;
    }
  }

  const Expansion* get(Section* s) const {
    if (const Expansion* known = s->expansion.load()) return known;
    std::string body;
    for (std::string_view rest = s->body; !rest.empty();) {
      std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
      body += line.starts_with("  use ") ? parts_.at(words_of(line.substr(6))[0]) : line;
      rest.remove_prefix(line.size());
    }
    auto made = std::make_unique<const Expansion>(
        read(s->words[1], {s->words.begin() + 2, s->words.end()}, with_type(body, s->choice)));
    // If several threads parse it at once, the first result is kept.
    const Expansion* first = nullptr;
    return s->expansion.compare_exchange_strong(first, made.get()) ? made.release() : first;
  }

  std::string_view heading_, body_;  // of the current section, while the files are split
  std::map<std::string, std::string_view> parts_;
  std::deque<Section> sections_;
  std::map<Key, size_t> index_;
};

Files& files() {
  static Files all(embedded_expansions());
  return all;
}

// Collects the expansions that a plan needs by walking its code.
class Needed {
 public:
  explicit Needed(const IsNative& is_native) : is_native_(is_native) {}

  void add(const std::vector<Inst>& code, const Expansion* within = nullptr) {
    for (const Inst& inst : code) add(inst.op, inst.in, inst.out, within);
  }
  void add(const Uniform& code) {
    for (const Level<Inst>& level : code) add(level.code);
  }
  void add(const Bodies& bodies) {
    for (const Body& body : bodies) {
      add(body.code);
      for (const Store& s : body.stores) {
        add(Op::cast, s.from, body.arrays[static_cast<size_t>(s.array)].dtype, nullptr);
      }
    }
  }
  std::vector<const Expansion*> take() { return std::move(order_); }

 private:
  void add(Op op, DType in, DType out, const Expansion* within) {
    const Expansion* e = expansion_of(op, in, out, within, is_native_);
    if (e == nullptr || !seen_.insert(e).second) return;
    add(e->code, e);
    order_.push_back(e);
  }

  const IsNative& is_native_;
  std::set<const Expansion*> seen_;
  std::vector<const Expansion*> order_;
};

}  // namespace

std::vector<const Expansion*> all_expansions() { return files().all(); }

const Expansion* expansion_of(Op op, DType in, DType out, const Expansion* within,
                              const IsNative& is_native) {
  if (within != nullptr) {
    bool is_itself = within->op == op && within->in == in && within->out == out;
    if (is_itself || op == Op::bitcast || op == Op::shl || op == Op::shr) return nullptr;
  }
  return is_native(op, in, out) ? nullptr : files().find({op, in, out});
}

std::vector<const Expansion*> needed_expansions(const KernelPlan& plan, const IsNative& is_native) {
  Needed needed(is_native);
  for (const Phase& phase : plan.phases) {
    needed.add(phase.uniform);
    needed.add(phase.bodies);
    needed.add(phase.otherwise);
    for (const Rollup& rollup : phase.rollups) needed.add(rollup.uniform);
  }
  needed.add(plan.finish.step);
  for (const Writes& block : plan.finish.writes) {
    needed.add(block.code);
  }
  return needed.take();
}

std::string function_text(const Expansion& e, const Dialect& dialect) {
  auto operand = [&](Id v) -> std::string {
    if (v == kNone) return "";
    const Value& value = e.values[static_cast<size_t>(v)];
    return value.is_constant ? dialect.literal(value.literal, value.dtype) : value.name;
  };
  std::string parameters;
  for (Id v = 0; v < info(e.op).arity; ++v) {
    DType t = e.values[static_cast<size_t>(v)].dtype;
    parameters += fmt::format("{}{} {}", v == 0 ? "" : ", ", dialect.type(t), operand(v));
  }
  Text out;
  out.open(fmt::format("{} {} {}({})", dialect.function, dialect.type(e.out), e.name, parameters));
  for (const Inst& inst : e.code) {
    auto [a, b, c] = inst.operands;
    std::string expression =
        dialect.expression(inst.op, inst.in, inst.out, operand(a), operand(b), operand(c), &e);
    out.line(
        fmt::format("const {} {} = {};", dialect.type(inst.out), operand(inst.value), expression));
  }
  out.line(fmt::format("return {};", operand(e.result)));
  out.close();
  return out.str();
}

std::string call_text(const Expansion& e, const std::string& a, const std::string& b,
                      const std::string& c) {
  std::string operands = a;
  if (info(e.op).arity > 1) operands += ", " + b;
  if (info(e.op).arity > 2) operands += ", " + c;
  return fmt::format("{}({})", e.name, operands);
}

}  // namespace stepfuse::plan
