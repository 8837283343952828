// Translates a formula's statements to instructions of a step. Knows ir and fmt.
#include "ir/formula/lower.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "ir/formula/resolve.hpp"
#include "ir/formula/update.hpp"
#include "ir/formula/values.hpp"
#include "ir/recipes/numerics.hpp"
#include "ir/text/near_names.hpp"
#include "ir/text/words.hpp"

namespace stepfuse::formula {
namespace {

using Kind = Statement::Kind;
using recipes::Context;

// The value of a name. After `x = a where p` it is p ? a : the previous value; that select is made when the
// name is read.
struct Entry {
  Operand now;
  const Statement* declared = nullptr;  // the declaration of a moment or state
  recipes::StoredValue kept;
  StateRef state;
  bool assigned = false;
  Value guard;
  Value before;
};

std::optional<Granularity> granularity_of(std::string_view word) {
  for (const NamedGranularity& d : kGranularities) {
    if (word == d.name && !is_tile(d.at)) return d.at;
  }
  return std::nullopt;
}

class Lowering {
 public:
  Lowering(const Formula& formula, Context& context)
      : f_(formula), c(context), v_(formula, context) {}

  Value run(const std::vector<const Statement*>& statements) {
    auto read = names_read(statements);
    bool has_lr = std::any_of(statements.begin(), statements.end(), [](const Statement* s) {
      return s->kind == Kind::hyper && s->name == "lr";
    });
    if (c.settings.weight_decay == WeightDecay::decoupled && !has_lr) {
      f_.fail({}, "decoupled weight decay multiplies lr and weight_decay: declare hyper lr");
    }
    if (c.weight) begin("weight", c.weight);
    begin("gradient", c.gradient);
    if (read.contains("w")) begin("w", recipes::decay_weight(c));
    const RecipeOptions& o = c.settings.options;
    if (read.contains("g") || o.caution) begin("g", recipes::add_l2_decay(c, c.gradient));
    if (f_.decay != WeightDecay::none && c.settings.weight_decay != WeightDecay::none) {
      begin("weight_decay", c.arg("weight_decay"));
    }
    if (o.update_clip != UpdateClip::none) begin("max_update", c.arg("max_update"));
    bool keeps = false;
    for (const Statement* s : statements) {
      execute(*s);
      keeps = keeps || s->kind == Kind::moment || s->kind == Kind::state;
    }
    if (keeps) c.count();
    if ((o.caution || o.update_clip != UpdateClip::none) && !has_update_) {
      throw Error(ErrorKind::usage,
                  fmt::format("--{}: {} does not say what its update is; leave it out, or write "
                              "update(x) in the formula, as in w = w - lr * update(x)",
                              o.caution ? "caution" : "update-clip", f_.name));
    }
    for (const auto& [name, entry] : names_) {
      // A moment that starts as a copy of the weight need not be assigned.
      if (entry.declared != nullptr && !entry.assigned && !entry.declared->from_weight) {
        f_.fail(entry.declared->loc, fmt::format("'{}' is never assigned: write {} = …, "
                                                 "or remove it",
                                                 name, name));
      }
    }
    if (new_weight_ || has_output_) return new_weight_;
    f_.fail({}, "nothing is assigned to the weight: write w = …");
  }

 private:
  void begin(std::string_view name, Value v) { names_[std::string(name)].now = {{}, v, {}}; }

  Entry& define(const std::string& name, SourceLoc loc) {
    bool word = granularity_of(name) || name == "t" || name == "g" || name == "w" ||
                name == "true" || name == "false";
    auto [it, is_new] = names_.try_emplace(name);
    if (!is_new || word) {
      f_.fail(loc, fmt::format("there is already a '{}'; choose a different name", name));
    }
    it->second.now.loc = loc;
    return it->second;
  }

  // --- statements

  void execute(const Statement& s) {
    v_.target = s.name;
    switch (s.kind) {
      case Kind::hyper:
        define(s.name, s.loc).now.value = c.arg(s.name);
        return;
      case Kind::moment: {
        Entry& e = define(s.name, s.loc);
        e.declared = &s;
        e.kept = s.dtype ? c.declare_and_load(s.name, *s.dtype) : c.moment(s.name);
        if (s.from_weight) c.b.init_copy(e.kept.buffer, c.weight_buffer);
        if (!s.dtype && !s.from_weight) c.moments.push_back(s.name);
        e.now.value = e.kept.value;
        return;
      }
      case Kind::input:
        define(s.name, s.loc).now.value =
            c.b.load(c.b.buffer(s.name, DType::f32, Access::in)).named(s.name + "_in");
        return;
      case Kind::output:
        return write_output(s);
      case Kind::state: {
        Entry& e = define(s.name, s.loc);
        e.declared = &s;
        e.state = c.b.state(s.name, {*s.dtype, s.at}, false, s.number);
        e.now.value = c.b.read(e.state).named(s.name + "_in");
        return;
      }
      case Kind::let: {
        Operand value = computed(s);
        if (locals_ != nullptr) {
          define_local(s) = value;
        } else {
          define(s.name, s.loc).now = value;
        }
        return;
      }
      case Kind::def:
        if (is_builtin(s.name) || !functions_.emplace(s.name, &s).second) {
          f_.fail(s.loc,
                  fmt::format("there is already a function '{}'; choose a different name", s.name));
        }
        return;
      case Kind::report: {
        Value value = concrete(computed(s), DType::f32);
        if (splits_tensor(value.type().at)) {
          f_.fail(
              s.loc,
              "a report has one value per tensor, group or step: reduce this, as in norm(x, step)");
        }
        c.b.write(c.b.report(s.name, value.type()), value);
        return;
      }
      case Kind::assign:
        return s.name == "w" ? assign_weight(s) : assign(s);
      case Kind::option:
      case Kind::refuse:
      case Kind::branch:
        internal_error("resolve() leaves none of these");
    }
  }

  // A skipped step has no valid output. It stores NaN, so that any use of the output shows.
  void write_output(const Statement& s) {
    Operand& now = define(s.name, s.loc).now;
    BufferRef buffer = c.b.buffer(s.name, *s.dtype, Access::out);
    Value value = v_.to(computed(s), DType::f32);
    now.value = value;
    if (c.good) {
      constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
      value = c.b.select(c.good, value, c.b.constant(DType::f32, kNone).named(s.name + "_none"));
    }
    c.b.store(buffer, c.b.cast_to_buffer(value.named(s.name + "_out"), buffer));
    has_output_ = true;
  }

  // Evaluates the statement's value, and names it after the statement if it is new.
  Operand computed(const Statement& s) {
    ValueId first = c.b.program().size();
    Operand o = evaluate(*s.value);
    if (!o.literal && o.value.id >= first && c.b.program()[o.value.id].op != Op::constant) {
      o.value.named(s.name);
    }
    return o;
  }

  Value concrete(const Operand& o, DType literals) {
    return o.literal ? v_.to(o, literals) : o.value;
  }

  Operand& define_local(const Statement& s) {
    auto [it, is_new] = locals_->try_emplace(s.name);
    if (!is_new)
      f_.fail(
          s.loc,
          fmt::format("there is already a '{}' in this function; choose a different name", s.name));
    return it->second;
  }

  void assign_weight(const Statement& s) {
    if (s.guard)
      f_.fail(s.guard->loc, "the weight cannot be assigned with where: write w = p ? a : w");
    if (new_weight_)
      f_.fail(s.loc, "the weight is assigned twice; write one w = … from parts that let names");
    new_weight_ = v_.to(computed(s), DType::f32);
    begin("w", new_weight_);
  }

  void assign(const Statement& s) {
    auto it = names_.find(s.name);
    if (it == names_.end() || it->second.declared == nullptr) {
      std::vector<std::string> kept;
      for (const auto& [name, entry] : names_) {
        if (entry.declared != nullptr) kept.push_back(name);
      }
      f_.fail(s.loc, fmt::format("'{}' is not a moment or a state: write let {} = …, or declare "
                                 "moment {}{}",
                                 s.name, s.name, s.name, did_you_mean(s.name, kept)));
    }
    Entry& e = it->second;
    if (e.assigned)
      f_.fail(s.loc, fmt::format("'{}' is assigned twice; name the parts with let", s.name));
    Operand value = computed(s);
    Value guard = s.guard ? v_.to_bool(evaluate(*s.guard)) : Value{};
    if (e.declared->kind == Kind::moment) {
      value.value = v_.to(value, DType::f32);
      c.update(e.kept, value.value, guard);
    } else {
      value.value = write_state(e, value, guard);
    }
    value.literal.reset();
    e.before = e.now.value;
    e.now = value;
    e.guard = guard;
    e.assigned = true;
  }

  Value write_state(const Entry& e, const Operand& value, Value guard) {
    const Statement& s = *e.declared;
    bool is_bool = s.dtype == DType::boolean;
    Value v = is_bool ? v_.to_bool(value) : v_.to(value, *s.dtype);
    Granularity finest = join(v.type().at, guard ? guard.type().at : per::step);
    if (!broadcasts(finest, s.at)) {
      f_.fail(value.loc, fmt::format("'{}' has one value per {}, but this has one per {}: "
                                     "reduce it, as in sum(x, {})",
                                     s.name, info(s.at).name, info(finest).name, info(s.at).name));
    }
    Value good = s.at.scope == Scope::tensor ? c.applied : c.good;
    Value predicate = good && guard ? (good & guard).named("applied_here") : good ? good : guard;
    c.b.write(e.state, v, predicate);
    return v;
  }

  // --- expressions

  // Limits the number and the depth of evaluations, because calls of functions within functions multiply
  // them.
  Operand evaluate(const Expr& e) {
    if (++evaluated_ > kMaxEvaluated) {
      f_.fail(e.loc,
              fmt::format("this formula evaluates more than {} names, numbers and operators, "
                          "counting functions at each call; call them less often",
                          kMaxEvaluated));
    }
    if (++height_ > kMaxHeight) {
      f_.fail(e.loc,
              fmt::format("this is nested more than {} deep, including calls; name its parts "
                          "with let",
                          kMaxHeight));
    }
    Operand result = evaluate_here(e);
    if (c.b.program().size() > kMaxOperations) {
      f_.fail(e.loc,
              fmt::format("this formula makes too many operations for one step, which can have {}",
                          kMaxOperations));
    }
    --height_;
    return result;
  }

  Operand evaluate_here(const Expr& e) {
    switch (e.kind) {
      case Expr::Kind::number:
        return {e.loc, {}, e.number};
      case Expr::Kind::name:
        return look_up(e);
      case Expr::Kind::unary:
        return v_.unary(e, evaluate(e.operands[0]));
      case Expr::Kind::binary: {
        Operand a = evaluate(e.operands[0]);
        return v_.binary(e, a, evaluate(e.operands[1]));
      }
      case Expr::Kind::choice: {
        Operand p = evaluate(e.operands[0]);
        Operand a = evaluate(e.operands[1]);
        return v_.choose(e.loc, p, a, evaluate(e.operands[2]));
      }
      case Expr::Kind::call:
        return call(e);
    }
    internal_error("bad Expr");
  }

  Operand look_up(const Expr& e) {
    if (locals_ != nullptr) {
      auto local = locals_->find(e.text);
      if (local != locals_->end()) return at(e.loc, local->second);
    }
    if (e.text == "t") return {e.loc, c.count(), {}};
    if (e.text == "true") return {e.loc, known_bool(yes_, true), {}};
    if (e.text == "false") return {e.loc, known_bool(no_, false), {}};
    auto it = names_.find(e.text);
    if (it == names_.end()) fail_unknown(e);
    Entry& entry = it->second;
    if (entry.guard) {
      Value merged = c.b.select(entry.guard, entry.now.value, entry.before);
      entry.now.value = merged.named(e.text + "_now");
      entry.guard = {};
    }
    return at(e.loc, entry.now);
  }

  Value known_bool(Value& known, bool v) {
    return known ? known : known = c.b.constant(DType::boolean, v ? 1 : 0).named(v ? "yes" : "no");
  }

  static Operand at(SourceLoc loc, Operand o) {
    o.loc = loc;
    return o;
  }

  [[noreturn]] void fail_unknown(const Expr& e) {
    std::vector<std::string> known = {"t"};
    for (const auto& [name, entry] : names_) known.push_back(name);
    if (locals_ != nullptr) {
      for (const auto& [name, operand] : *locals_) known.push_back(name);
    }
    std::string near = did_you_mean(e.text, known);
    if (near.empty()) near = ": declare it above, with hyper, let, moment or state";
    f_.fail(e.loc, fmt::format("there is no '{}'{}", e.text, near));
  }

  Operand call(const Expr& e) {
    if (e.text == "count") return count(e);
    if (e.text == "update") return update(e);
    if (auto granularity = reduction_granularity(e)) {
      Operand x = evaluate(e.operands[0]);
      if (auto reduced = call_reduction(v_, e, x, *granularity)) return *reduced;
      f_.fail(e.loc,
              fmt::format("'{}' is not a reduction; there are sum, mean, norm, max, min and any",
                          e.text));
    }
    if (e.text == "round") return round(e);
    std::vector<Operand> operands;
    for (const Expr& o : e.operands) operands.push_back(evaluate(o));
    if (auto result = call_builtin(v_, e, operands)) return *result;
    auto it = functions_.find(e.text);
    if (it != functions_.end()) return call_own(e, *it->second, operands);
    if (is_reduction(e.text)) {
      f_.fail(e.loc, fmt::format("say what '{0}' is over: {0}(x, tensor), group or step", e.text));
    }
    std::vector<std::string> known = builtin_names();
    for (const auto& [name, s] : functions_) known.push_back(name);
    std::string near = did_you_mean(e.text, known);
    if (near.empty()) near = fmt::format(": write def {}(x) = …", e.text);
    f_.fail(e.loc, fmt::format("there is no function '{}'{}", e.text, near));
  }

  Operand count(const Expr& e) {
    std::string of = e.operands.size() == 1 ? e.operands[0].text : "";
    auto granularity = granularity_of(of);
    if (!granularity)
      f_.fail(e.loc, "write count(row), count(column), count(tensor), count(group) or count(step)");
    return {e.loc, v_.count(*granularity), {}};
  }

  // update(x) and update(x, unit) apply the options that change updates to `x`. The unit only scales the
  // measure.
  Operand update(const Expr& e) {
    if (e.operands.empty() || e.operands.size() > 2) {
      f_.fail(e.loc, "write update(x), or update(x, unit) if the weight moves by x / unit");
    }
    has_update_ = true;
    Operand x = evaluate(e.operands[0]);
    const RecipeOptions& o = c.settings.options;
    if (!o.caution && o.update_clip == UpdateClip::none) return x;
    if (!is_tile(x.granularity())) {
      f_.fail(x.loc, "update() takes a value per element: the direction of the weight's step");
    }
    if (o.update_clip != UpdateClip::none) {
      Operand unit = {e.loc, {}, 1.0};
      if (e.operands.size() == 2) unit = evaluate(e.operands[1]);
      bool rms = o.update_clip == UpdateClip::rms;
      x = call_own(e, update_function(rms ? "clip_rms" : "clip_l2"), {x, unit});
    }
    return o.caution ? call_own(e, update_function("cautious"), {x}) : x;
  }

  std::optional<Granularity> reduction_granularity(const Expr& e) const {
    if (e.operands.size() != 2 || e.operands[1].kind != Expr::Kind::name) return std::nullopt;
    return granularity_of(e.operands[1].text);
  }

  // The body can read its parameters, its own lets, and the names that the formula has defined so far.
  Operand call_own(const Expr& e, const Statement& def, const std::vector<Operand>& operands) {
    if (operands.size() != def.params.size()) {
      f_.fail(e.loc, fmt::format("{} takes {}, not {}", def.name,
                                 count_words(def.params.size(), "value"), operands.size()));
    }
    if (!active_.insert(&def).second) {
      f_.fail(
          e.loc,
          fmt::format(
              "{} calls itself, directly or through a different function; a formula cannot recurse",
              def.name));
    }
    std::map<std::string, Operand> mine;
    for (size_t i = 0; i < operands.size(); ++i) mine[def.params[i]] = operands[i];
    auto* caller = std::exchange(locals_, &mine);
    std::string target = v_.target;
    for (const Statement& s : def.body) execute(s);
    v_.target = target;
    Operand result = evaluate(*def.value);
    locals_ = caller;
    active_.erase(&def);
    return at(e.loc, result);
  }

  // round(x, @grad) converts to the gradient's storage type and back; round(x, bf16) does the same with
  // bf16.
  Operand round(const Expr& e) {
    if (e.operands.size() != 2)
      f_.fail(e.loc, "write round(x, @grad), round(x, bf16) or round(x, f16)");
    Value x = v_.to(evaluate(e.operands[0]), DType::f32);
    const Expr& to = e.operands[1];
    if (to.text == "grad") {
      if (c.settings.options.grad == DTypeSet(DType::f32)) return {e.loc, x, {}};
      return v_.made(e.loc, c.b.cast(v_.made(e.loc, c.b.cast_to_buffer(x, c.gradient_buffer)).value,
                                     DType::f32));
    }
    auto dtype = dtype_from_name(to.text);
    if (!dtype || !kModelTypes.contains(*dtype))
      f_.fail(to.loc, "round() rounds to @grad, bf16 or f16");
    return v_.made(e.loc, c.b.cast(v_.made(e.loc, c.b.cast(x, *dtype)).value, DType::f32));
  }

  const Formula& f_;
  Context& c;
  Values v_;
  std::map<std::string, Entry> names_;
  std::map<std::string, const Statement*> functions_;
  std::map<std::string, Operand>* locals_ = nullptr;
  std::set<const Statement*> active_;  // functions whose calls are being evaluated
  int height_ = 0;
  int evaluated_ = 0;
  Value yes_;
  Value no_;
  Value new_weight_;
  bool has_output_ = false;
  bool has_update_ = false;
};

}  // namespace

Value lower(const Formula& formula, const std::vector<const Statement*>& statements, Context& c) {
  return Lowering(formula, c).run(statements);
}

}  // namespace stepfuse::formula
