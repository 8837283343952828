// Selects the statements of a formula that apply under given options. Knows ir and fmt.
#include "ir/formula/resolve.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "ir/formula/values.hpp"
#include "ir/text/near_names.hpp"

namespace stepfuse::formula {
namespace {

using Kind = Statement::Kind;

constexpr std::string_view kDecays[] = {"none", "l2", "decoupled"};

const RecipeOption* row_of(std::string_view name) {
  for (const RecipeOption& row : recipe_option_table()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// Returns the value as formulas write it: a name has no '-'.
std::string word_of(std::string_view value) {
  std::string word(value);
  std::replace(word.begin(), word.end(), '-', '_');
  return word;
}

class Resolver {
 public:
  Resolver(const Formula& formula, const recipes::Settings& settings)
      : formula_(formula), settings_(settings) {
    for (const Statement* s : options_of(formula)) options_.push_back(s->name);
  }

  void walk(const std::vector<Statement>& body) {
    for (const Statement& s : body) {
      if (s.kind == Kind::branch) {
        bool taken = is_true(*s.value);
        walk(taken ? s.body : s.otherwise);
        check_conditions(taken ? s.otherwise : s.body);
      } else if (s.kind == Kind::refuse) {
        throw Error(ErrorKind::usage, s.help);
      } else if (s.kind != Kind::option) {
        active.push_back(&s);
      }
    }
  }

  std::vector<const Statement*> active;

 private:
  // Checks the conditions in branches that are not taken, so that a mistake there shows under all options.
  void check_conditions(const std::vector<Statement>& body) {
    for (const Statement& s : body) {
      if (s.kind != Kind::branch) continue;
      is_true(*s.value);
      check_conditions(s.body);
      check_conditions(s.otherwise);
    }
  }

  bool is_true(const Expr& e) {
    if (e.kind == Expr::Kind::unary && e.text == "!") return !is_true(e.operands[0]);
    if (e.kind == Expr::Kind::binary) {
      if (e.text == "&&" || e.text == "||") {
        // Both are evaluated, to check them.
        bool a = is_true(e.operands[0]), b = is_true(e.operands[1]);
        return e.text == "&&" ? a && b : a || b;
      }
      if (e.text == "==") return is_choice(e);
      if (e.text == "!=") return !is_choice(e);
    }
    if (e.kind == Expr::Kind::name &&
        std::find(options_.begin(), options_.end(), e.text) != options_.end()) {
      return is_on(e.text);
    }
    formula_.fail(e.loc,
                  fmt::format("'if' tests only what is known before the step runs: an option{}, "
                              "profile == … or decay == …; for values write p ? a : b",
                              did_you_mean(e.text, options_)));
  }

  bool is_on(const std::string& option) const {
    const RecipeOptions& o = settings_.options;
    if (const RecipeOption* row = row_of(option)) return row->get(o) == "true";
    return std::find(o.with.begin(), o.with.end(), option) != o.with.end();
  }

  bool is_choice(const Expr& e) {
    const Expr& what = e.operands[0];
    const Expr& word = e.operands[1];
    bool profile = what.text == "profile";
    if (!profile && what.text != "decay") {
      formula_.fail(what.loc, "'if' compares only profile or decay, with one of their values");
    }
    std::vector<std::string> values;
    if (profile) {
      for (std::string_view v : row_of("profile")->values) values.push_back(word_of(v));
    } else {
      values.assign(std::begin(kDecays), std::end(kDecays));
    }
    if (std::find(values.begin(), values.end(), word.text) == values.end()) {
      formula_.fail(word.loc, fmt::format("'{}' is not a {}{}", word.text, what.text,
                                          did_you_mean(word.text, values)));
    }
    if (!profile) return word.text == kDecays[static_cast<size_t>(settings_.weight_decay)];
    return word.text == word_of(row_of("profile")->get(settings_.options));
  }

  const Formula& formula_;
  const recipes::Settings& settings_;
  std::vector<std::string> options_;
};

template <class Visit>
void visit_all(const std::vector<Statement>& body, Visit&& visit) {
  for (const Statement& s : body) {
    visit(s);
    visit_all(s.body, visit);
    visit_all(s.otherwise, visit);
  }
}

bool asks(const Expr& e, std::string_view profile) {
  if (e.kind == Expr::Kind::binary && e.operands[0].text == "profile") {
    return e.operands[1].text == profile;
  }
  return std::any_of(e.operands.begin(), e.operands.end(),
                     [&](const Expr& o) { return asks(o, profile); });
}

void add_names(const Expr& e, std::set<std::string, std::less<>>& names) {
  if (e.kind == Expr::Kind::name || e.kind == Expr::Kind::call) names.insert(e.text);
  for (const Expr& o : e.operands) add_names(o, names);
}

void add_names(const Statement& s, std::set<std::string, std::less<>>& names) {
  if (s.value) add_names(*s.value, names);
  if (s.guard) add_names(*s.guard, names);
  for (const Statement& inner : s.body) add_names(inner, names);
}

}  // namespace

std::vector<const Statement*> resolve(const Formula& formula, const recipes::Settings& settings) {
  Resolver resolver(formula, settings);
  resolver.walk(formula.body);
  return std::move(resolver.active);
}

std::vector<const Statement*> options_of(const Formula& formula) {
  std::vector<const Statement*> options;
  visit_all(formula.body, [&](const Statement& s) {
    if (s.kind == Kind::option) options.push_back(&s);
  });
  return options;
}

std::vector<std::string> moments_of(const Formula& formula) {
  std::vector<std::string> moments;
  visit_all(formula.body, [&](const Statement& s) {
    if (s.kind == Kind::moment && !s.dtype && !s.from_weight) moments.push_back(s.name);
  });
  return moments;
}

bool assigns_weight(const std::vector<const Statement*>& statements) {
  return std::any_of(statements.begin(), statements.end(),
                     [](const Statement* s) { return s->kind == Kind::assign && s->name == "w"; });
}

bool reads_weight(const std::vector<const Statement*>& statements, WeightDecay decay) {
  auto read = names_read(statements);
  bool copies = std::any_of(statements.begin(), statements.end(),
                            [](const Statement* s) { return s->from_weight; });
  return copies || read.contains("w") || read.contains("weight") ||
         (read.contains("g") && decay == WeightDecay::l2);
}

bool asks_for_profile(const Formula& formula, std::string_view profile) {
  bool found = false;
  visit_all(formula.body, [&](const Statement& s) {
    found = found || (s.kind == Kind::branch && asks(*s.value, profile));
  });
  return found;
}

std::string_view meaning_of(const Formula& formula, std::string_view name) {
  std::string_view meaning;
  visit_all(formula.body, [&](const Statement& s) {
    bool declares = s.kind != Kind::option && s.name == name;
    if (declares && meaning.empty()) meaning = s.help;
  });
  return meaning;
}

void check_used(const Formula& formula) {
  std::set<std::string, std::less<>> read;
  visit_all(formula.body, [&](const Statement& s) {
    if (s.value) add_names(*s.value, read);
    if (s.guard) add_names(*s.guard, read);
  });
  visit_all(formula.body, [&](const Statement& s) {
    bool declares = s.kind == Kind::hyper || s.kind == Kind::let || s.kind == Kind::def ||
                    s.kind == Kind::moment || s.kind == Kind::input || s.kind == Kind::state ||
                    s.kind == Kind::option;
    if (!declares || read.contains(s.name)) return;
    formula.fail(s.loc, fmt::format("'{}' is never used: remove it", s.name));
  });
}

void check_known(const Formula& formula) {
  std::set<std::string> known = {"t", "g", "w", "true", "false", "weight", "gradient", "grad"};
  if (formula.decay != WeightDecay::none) known.emplace("weight_decay");
  for (const NamedGranularity& d : kGranularities) known.emplace(d.name);
  std::vector<std::string> built_in = builtin_names();
  std::set<std::string> functions(built_in.begin(), built_in.end());
  functions.insert({"count", "round"});
  visit_all(formula.body, [&](const Statement& s) {
    (s.kind == Kind::def ? functions : known).insert(s.name);
    known.insert(s.params.begin(), s.params.end());
  });
  auto check = [&](auto&& self, const Expr& e) -> void {
    bool call = e.kind == Expr::Kind::call;
    if (call || e.kind == Expr::Kind::name) {
      const auto& all = call ? functions : known;
      bool found = all.contains(e.text) ||
                   (call ? is_reduction(e.text) : dtype_from_name(e.text).has_value());
      if (!found) {
        formula.fail(
            e.loc,
            fmt::format(
                "a branch that these options do not take uses {} '{}', which does not exist{}",
                call ? "function" : "value", e.text,
                did_you_mean(e.text, std::vector<std::string>(all.begin(), all.end()))));
      }
    }
    for (const Expr& o : e.operands) self(self, o);
  };
  visit_all(formula.body, [&](const Statement& s) {
    if (s.value && s.kind != Kind::branch) check(check, *s.value);
    if (s.guard) check(check, *s.guard);
  });
}

std::set<std::string, std::less<>> names_read(const std::vector<const Statement*>& statements) {
  std::set<std::string, std::less<>> names;
  for (const Statement* s : statements) add_names(*s, names);
  return names;
}

}  // namespace stepfuse::formula
