// Parses formula text. Knows ir and fmt.
#include "ir/formula/parser.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ir/formula/lexer.hpp"
#include "ir/semantics/fp_env.hpp"
#include "ir/text/near_names.hpp"
#include "ir/text/token_reader.hpp"
#include "ir/text/words.hpp"

namespace stepfuse::formula {
namespace {

using Kind = Statement::Kind;

// The keywords with which statements start.
const std::vector<std::string> kStatements = {"hyper",   "moment", "input", "output", "state",
                                              "option",  "let",    "def",   "report", "decay",
                                              "caution", "if",     "refuse"};

// Binary operators, loosest first. Those of one level associate to the left.
struct Level {
  std::string_view signs[4];
};
constexpr Level kLevels[] = {
    {{"||"}}, {{"&&"}}, {{"==", "!="}}, {{"<", "<=", ">", ">="}}, {{"+", "-"}}, {{"*", "/", "%"}}};

class Parser : TokenReader<Lexer> {
 public:
  Parser(std::string_view text, std::string_view file, FindBase find_base)
      : TokenReader(text, file), find_base_(find_base) {
    formula_.text = formula_.formula_text = text;
    formula_.file = file;
  }

  Formula parse() {
    expect_word("optimizer");
    formula_.name = expect(TokenKind::word, "the optimizer's name").text;
    formula_.help = parse_help();
    if (take("=")) {
      parse_variant();
    } else {
      expect("{");
      while (!take("}")) parse_statement(formula_.body);
    }
    if (!at(TokenKind::end)) {
      fail("text after the optimizer's closing '}'; a file holds one optimizer");
    }
    return std::move(formula_);
  }

 private:
  // --- tokens

  // Fails on a word that other languages have in expressions.
  void check_foreign_word() const {
    const Token& t = lexer_.peek();
    if (t.kind != TokenKind::word) return;
    if (t.text == "and") fail("there is no 'and'; write a && b");
    if (t.text == "or") fail("there is no 'or'; write a || b");
  }
  [[noreturn]] void fail_expected(std::string_view what) const override {
    check_foreign_word();
    fail_found(what);
  }
  // Parses a name that the formula declares. Words that precede a value or a block are not allowed: only
  // the blank before its parenthesis would tell the guard `where (g)` from a call `where(g)`.
  std::string declare_name(std::string_view what) {
    Token t = expect(TokenKind::word, what);
    for (std::string_view word : {"if", "else", "where", "return"}) {
      if (t.text != word) continue;
      lexer_.fail(t.loc,
                  fmt::format("'{}' is a word of the language; choose a different name", word));
    }
    return std::string(t.text);
  }
  std::string parse_help() { return at(TokenKind::text) ? std::string(next().text) : ""; }

  double parse_number() {
    if (!at(TokenKind::number)) fail_expected("a number");
    const Token& t = lexer_.peek();
    auto v = stepfuse::parse_number<double>(t.text);
    if (!v) fail(fmt::format("'{}' is not a number", t.text.substr(0, 40)));
    next();
    return *v;
  }
  double parse_default() {
    if (take_word("true")) return 1;
    if (take_word("false")) return 0;
    return take("-") ? -parse_number() : parse_number();
  }

  Granularity parse_granularity() {
    const auto* found = std::ranges::find_if(kGranularities, [&](const NamedGranularity& g) {
      return !is_tile(g.at) && take_word(g.name);
    });
    if (found == std::end(kGranularities)) fail_expected("row, column, tensor, group or step");
    return found->at;
  }

  // --- expressions

  struct Depth {
    explicit Depth(Parser& p) : parser(p) {
      if (++p.depth_ > kMaxNesting) {
        p.fail(
            fmt::format("this is nested more than {} deep; name its parts with let", kMaxNesting));
      }
    }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    ~Depth() { --parser.depth_; }
    Parser& parser;
  };

  void count_node() {
    if (++nodes_ <= kMaxNodes) return;
    fail(
        fmt::format("this formula has more than {} names, numbers, operators and statements, "
                    "more than any optimizer needs; make it shorter",
                    kMaxNodes));
  }

  // Makes an expression from its token and operands. The operands are moved, because an initializer list
  // would copy them with all their subtrees.
  template <class... Operands>
  Expr make(Expr::Kind kind, const Token& t, Operands... operands) {
    std::vector<Expr> list;
    list.reserve(sizeof...(operands));
    (list.push_back(std::move(operands)), ...);
    return make_of(kind, t, std::move(list));
  }
  Expr make_of(Expr::Kind kind, const Token& t, std::vector<Expr> operands) {
    count_node();
    Expr e{.kind = kind, .loc = t.loc, .text = std::string(t.text)};
    e.operands = std::move(operands);
    for (const Expr& o : e.operands) e.height = std::max(e.height, o.height + 1);
    if (e.height > kMaxHeight) {
      lexer_.fail(t.loc,
                  fmt::format("this expression applies more than {} operators to one another; "
                              "name its parts with let",
                              kMaxHeight));
    }
    return e;
  }

  Expr parse_expr() {
    Depth depth(*this);
    Expr condition = parse_binary(0);
    if (!at("?")) return condition;
    Token t = next();
    Expr yes = parse_expr();
    expect(":");
    Expr no = parse_expr();
    return make(Expr::Kind::choice, t, std::move(condition), std::move(yes), std::move(no));
  }

  Expr parse_binary(size_t level) {
    if (level == std::size(kLevels)) return parse_unary();
    Expr left = parse_binary(level + 1);
    auto here = [&] {
      for (std::string_view sign : kLevels[level].signs) {
        if (!sign.empty() && at(sign)) return true;
      }
      return false;
    };
    while (here()) {
      Token t = next();
      if (t.text == "*" && at("*")) fail("there is no '**'; write a^b");
      Expr right = parse_binary(level + 1);
      left = make(Expr::Kind::binary, t, std::move(left), std::move(right));
    }
    return left;
  }

  Expr parse_unary() {
    if (!at("-") && !at("!")) return parse_power();
    Depth depth(*this);
    Token t = next();
    return make(Expr::Kind::unary, t, parse_unary());
  }

  Expr parse_power() {
    Expr base = parse_primary();
    if (!at("^")) return base;
    Depth depth(*this);
    Token t = next();
    Expr exponent = parse_unary();
    return make(Expr::Kind::binary, t, std::move(base), std::move(exponent));
  }

  Expr parse_primary() {
    if (take("(")) {
      Expr inner = parse_expr();
      expect(")");
      return inner;
    }
    Token t = lexer_.peek();
    if (t.kind == TokenKind::number) {
      Expr e = make(Expr::Kind::number, t);
      e.number = parse_number();
      return e;
    }
    if (take("@")) return make(Expr::Kind::name, expect(TokenKind::word, "grad"));
    if (t.kind != TokenKind::word) fail_expected("a value");
    next();
    bool has_operand = at(TokenKind::word) || at("(");
    if (t.text == "not" && has_operand) lexer_.fail(t.loc, "there is no 'not'; write !a");
    // The parenthesis of a call touches its name. Any other parenthesis here starts a new line.
    if (!at("(") || !lexer_.peek().touches) return make(Expr::Kind::name, t);
    return make_of(Expr::Kind::call, t, parse_list([&] { return parse_expr(); }));
  }

  template <class Parse>
  auto parse_list(Parse&& item) -> std::vector<decltype(item())> {
    std::vector<decltype(item())> list;
    expect("(");
    while (!at(")")) {
      list.push_back(item());
      if (!at(")")) expect(",");
    }
    expect(")");
    return list;
  }

  // --- statements

  Statement begin(Kind kind) {
    count_node();
    return {.kind = kind, .loc = lexer_.peek().loc};
  }

  void parse_statement(std::vector<Statement>& to) {
    Depth depth(*this);
    if (take_word("hyper")) return parse_items(to, Kind::hyper);
    if (take_word("moment")) return parse_moments(to);
    if (take_word("input")) return parse_items(to, Kind::input);
    if (take_word("output")) return parse_output(to);
    if (take_word("state")) return parse_items(to, Kind::state);
    if (take_word("option")) return parse_items(to, Kind::option);
    if (take_word("let")) return parse_items(to, Kind::let);
    if (take_word("report")) return parse_items(to, Kind::report);
    if (take_word("decay")) return parse_decay();
    if (take_word("caution")) {
      formula_.caution = true;
      return;
    }
    if (take_word("def")) return to.push_back(parse_def());
    if (take_word("if")) return to.push_back(parse_branch());
    if (take_word("refuse")) {
      Statement s = begin(Kind::refuse);
      s.help = parse_help();
      if (s.help.empty()) fail_expected("\"what is refused, and what to do\"");
      return to.push_back(std::move(s));
    }
    Statement s = begin(Kind::assign);
    s.name =
        expect(TokenKind::word,
               "hyper, moment, input, output, state, option, let, def, report, if, NAME = … or '}'")
            .text;
    for (std::string_view sign : {"+", "-", "*", "/", "%"}) {
      if (!at(sign)) continue;
      fail(fmt::format("there is no '{1}='; write {0} = {0} {1} …", s.name.substr(0, 40), sign));
    }
    if (!take("=")) {
      check_foreign_word();
      fail_found(fmt::format("'=' after '{}'", s.name.substr(0, 40)),
                 did_you_mean(s.name, kStatements));
    }
    s.value = parse_expr();
    if (take_word("where")) s.guard = parse_expr();
    to.push_back(std::move(s));
  }

  void parse_items(std::vector<Statement>& to, Kind kind) {
    do {
      Statement s = begin(kind);
      s.name = declare_name("a name");
      if (kind == Kind::let || kind == Kind::report) {
        expect("=");
        s.value = parse_expr();
      }
      if (kind == Kind::hyper) {
        expect("=");
        s.number = parse_default();
      }
      if (kind == Kind::state) parse_state_type(s);
      if (kind != Kind::let) s.help = parse_help();
      to.push_back(std::move(s));
    } while (take(","));
  }

  void parse_state_type(Statement& s) {
    expect(":");
    s.at = parse_granularity();
    bool columns = s.at == per::column;
    s.dtype = columns ? DType::f32 : DType::f64;
    if (at(TokenKind::word) && dtype_from_name(lexer_.peek().text)) {
      s.dtype = dtype_from_name(lexer_.peek().text);
      bool known = s.dtype == DType::f64 || s.dtype == DType::f32 || s.dtype == DType::i64 ||
                   s.dtype == DType::boolean;
      if (!known) fail("the type of a state must be f64 (the default), f32, i64 or bool");
      if (columns && size_of(*s.dtype) == 8) {
        fail("the type of a column state must be f32 (the default) or bool");
      }
      next();
    }
    if (take("=")) s.number = parse_default();
  }

  // Parses "moment a, b [: f32] [= w] ["help"]". Everything behind the names applies to all of them.
  void parse_moments(std::vector<Statement>& to) {
    size_t first = to.size();
    do {
      Statement s = begin(Kind::moment);
      s.name = declare_name("a name");
      to.push_back(std::move(s));
    } while (take(","));
    std::optional<DType> dtype;
    if (take(":")) {
      if (!take_word("f32")) fail_expected("f32 (without a type, --moments selects the storage)");
      dtype = DType::f32;
    }
    bool from_weight = take("=");
    if (from_weight && !take_word("w")) {
      fail_expected("w: a moment starts as zeros, or with '= w' as a copy of the weight");
    }
    std::string help = parse_help();
    for (Statement& s : std::span(to).subspan(first)) {
      s.dtype = dtype;
      s.from_weight = from_weight;
      s.help = help;
    }
  }

  // output u [: bf16] = value ["help"]
  void parse_output(std::vector<Statement>& to) {
    Statement s = begin(Kind::output);
    s.name = declare_name("a name");
    s.dtype = DType::f32;
    if (take(":")) {
      s.dtype = dtype_from_name(lexer_.peek().text);
      if (!s.dtype || !kFloatStorage.contains(*s.dtype)) {
        fail_expected(fmt::format("one of {}", names(kFloatStorage, ", ")));
      }
      next();
    }
    expect("=");
    s.value = parse_expr();
    s.help = parse_help();
    to.push_back(std::move(s));
  }

  void parse_decay() {
    bool l2 = take_word("l2");
    if (!l2 && !take_word("decoupled")) fail_expected("l2 or decoupled");
    expect("=");
    formula_.decay = l2 ? WeightDecay::l2 : WeightDecay::decoupled;
    formula_.weight_decay = parse_default();
  }

  Statement parse_def() {
    Statement s = begin(Kind::def);
    s.name = declare_name("the function's name");
    s.params = parse_list([&] {
      count_node();
      return declare_name("a parameter");
    });
    if (take("{")) {
      while (take_word("let")) parse_items(s.body, Kind::let);
      if (!at_word("return")) fail_expected("let or return");
      next();
      s.value = parse_expr();
      expect("}");
    } else {
      expect("=");
      s.value = parse_expr();
    }
    return s;
  }

  Statement parse_branch() {
    Statement s = begin(Kind::branch);
    s.value = parse_expr();
    expect("{");
    while (!take("}")) parse_statement(s.body);
    if (!take_word("else")) return s;
    Depth depth(*this);
    if (take_word("if")) {
      s.otherwise.push_back(parse_branch());
    } else {
      expect("{");
      while (!take("}")) parse_statement(s.otherwise);
    }
    return s;
  }

  // Takes over the base's statements. The statements that follow change defaults.
  void parse_variant() {
    Token name = expect(TokenKind::word, "the optimizer to start from");
    std::optional<Formula> base = find_base_(name.text);
    if (!base) {
      lexer_.fail(name.loc, fmt::format("there is no built-in optimizer '{}' to start from",
                                        name.text.substr(0, 40)));
    }
    formula_.body = base->body;
    formula_.formula_text = base->formula_text;
    formula_.decay = base->decay;
    formula_.weight_decay = base->weight_decay;
    formula_.caution = base->caution;
    expect("{");
    while (!take("}")) {
      if (take_word("decay")) {
        parse_decay();
      } else if (at_word("hyper")) {
        replace_defaults();
      } else {
        fail_expected("hyper, decay or '}'; a formula with other changes needs its whole text");
      }
    }
  }

  void replace_defaults() {
    next();
    std::vector<Statement> given;
    parse_items(given, Kind::hyper);
    for (const Statement& g : given) {
      if (!replace_default(formula_.body, g)) {
        lexer_.fail(g.loc, fmt::format("the formula has no hyper '{}'", g.name.substr(0, 40)));
      }
    }
  }
  static bool replace_default(std::vector<Statement>& body, const Statement& given) {
    bool found = false;
    for (Statement& s : body) {
      if (s.kind == Kind::hyper && s.name == given.name) {
        s.number = given.number;
        found = true;
      }
      found = replace_default(s.body, given) || found;
      found = replace_default(s.otherwise, given) || found;
    }
    return found;
  }

  FindBase find_base_;
  Formula formula_;
  int depth_ = 0;
  int nodes_ = 0;
};

}  // namespace

Formula parse_formula(std::string_view text, std::string_view file, FindBase find_base) {
  FpEnvGuard guard;
  return Parser(text, file, find_base).parse();
}

}  // namespace stepfuse::formula
