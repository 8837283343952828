// Formats texts of steps and formulas. Knows ir.
#include "ir/text/text_format.hpp"

#include <algorithm>
#include <vector>

#include <stepfuse/error.hpp>
#include <stepfuse/parser.hpp>

#include "ir/formula/built_in.hpp"
#include "ir/formula/lexer.hpp"
#include "ir/formula/parser.hpp"
#include "ir/text/lexer.hpp"

namespace stepfuse {
namespace {

// The role of a token, which decides about blanks and line ends.
enum class Role : uint8_t {
  word,    // a name, a number, a keyword, a quoted text
  asks,    // a word before a value, such as `where`
  sign,    // a binary operator, '=' or ':', with blanks around it
  prefix,  // an operator in front of its operand
  tight,   // '^', '|' and '.': no blanks around
  comma,
  open,  // '(', and brackets around a type
  close,
  open_block,
  close_block,
};

struct Piece {
  std::string_view raw;
  int line = 0;
  Role role = Role::word;
  bool touches = false;  // it directly follows the piece before it
  bool goes_on = false;  // it cannot start a statement
};

struct Line {
  std::vector<Piece> pieces;
  std::string_view comment;
};

// Whether a value may end with this role. A '-' behind it is then a binary operator, and otherwise a sign.
bool ends_value(Role r) { return r == Role::word || r == Role::close; }

bool is_one_of(std::string_view raw, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), raw) != words.end();
}

// --- the two languages

std::vector<Piece> step_pieces(std::string_view text, std::string_view file) {
  std::vector<Piece> out;
  Lexer lexer(text, file);
  bool in_type = false;
  while (lexer.peek().kind != TokenKind::end) {
    Token t = lexer.next();
    bool sigil = t.kind == TokenKind::at_name || t.kind == TokenKind::percent_name;
    Piece p{{t.text.data() - (sigil ? 1 : 0), t.text.size() + (sigil ? 1 : 0)}, t.loc.line};
    if (t.kind == TokenKind::sign) {
      char c = t.text[0];
      bool behind_colon = !out.empty() && out.back().raw == ":";
      if (c == ',')
        p.role = Role::comma;
      else if (c == '|')
        p.role = Role::tight;
      else if (c == ':' || c == '=')
        p.role = Role::sign;
      else if (c == '{' && !behind_colon)
        p.role = Role::open_block;
      else if (c == '}' && !in_type)
        p.role = Role::close_block;
      else
        p.role = c == '{' || c == '[' || c == '<' || c == '(' ? Role::open : Role::close;
      if (c == '{') in_type = behind_colon;
      if (c == '}') in_type = false;
    }
    p.touches = p.role == Role::open && t.text == "(";  // as in bits(…)
    p.goes_on =
        t.kind == TokenKind::word && is_one_of(t.text, {"if", "shared", "in", "out", "inout"});
    out.push_back(p);
  }
  return out;
}

Role formula_role(const Token& t, const std::vector<Piece>& before) {
  if (t.kind == TokenKind::word) {
    return is_one_of(t.text, {"where", "return", "if"}) ? Role::asks : Role::word;
  }
  if (t.kind != TokenKind::sign) return Role::word;
  if (t.text == ",") return Role::comma;
  if (t.text == "(") return Role::open;
  if (t.text == ")") return Role::close;
  if (t.text == "{") return Role::open_block;
  if (t.text == "}") return Role::close_block;
  if (t.text == "^") return Role::tight;
  bool first = before.empty() || !ends_value(before.back().role);
  bool prefix = t.text == "!" || t.text == "@" || (t.text == "-" && first);
  return prefix ? Role::prefix : Role::sign;
}

std::vector<Piece> formula_pieces(std::string_view text, std::string_view file) {
  std::vector<Piece> out;
  formula::Lexer lexer(text, file);
  while (lexer.peek().kind != TokenKind::end) {
    Token t = lexer.next();
    int quotes = t.kind == TokenKind::text ? 1 : 0;
    std::string_view raw(t.text.data() - quotes, t.text.size() + 2 * static_cast<size_t>(quotes));
    bool goes_on = quotes != 0 || raw == "where";
    out.push_back({raw, t.loc.line, formula_role(t, out), t.touches, goes_on});
  }
  return out;
}

// --- lines

bool blank_between(const Piece& a, const Piece& b) {
  if (a.role == Role::open || a.role == Role::prefix || a.role == Role::tight) return false;
  if (b.role == Role::close || b.role == Role::comma || b.role == Role::tight) return false;
  // The parenthesis of a call touches its name; a blank would make it something else.
  if (b.role == Role::open && ends_value(a.role)) return !b.touches;
  return true;
}

// Whether a line that starts with `first` continues the statement that ends in `last`.
bool goes_on(const Piece& last, const Piece& first) {
  bool unfinished = last.role == Role::sign || last.role == Role::comma ||
                    last.role == Role::tight || last.role == Role::prefix ||
                    last.role == Role::asks;
  bool may_begin = first.role == Role::word || first.role == Role::asks ||
                   first.role == Role::open_block || first.role == Role::close_block;
  return unfinished || !may_begin || first.goes_on;
}

// Splits the text into lines. One or several empty lines become one line without pieces.
std::vector<Line> lines_of(std::string_view text, const std::vector<Piece>& pieces) {
  std::vector<Line> lines;
  auto piece = pieces.begin();
  for (int number = 1; !text.empty(); ++number) {
    size_t end = std::min(text.find('\n'), text.size());
    const char* rest = text.data();
    Line line;
    for (; piece != pieces.end() && piece->line == number; ++piece) {
      line.pieces.push_back(*piece);
      rest = piece->raw.data() + piece->raw.size();
    }
    std::string_view tail(rest, static_cast<size_t>(text.data() + end - rest));
    size_t comment = tail.find("//");
    if (comment != std::string_view::npos) {
      line.comment = tail.substr(comment);
      line.comment = line.comment.substr(0, line.comment.find_last_not_of(" \t\r") + 1);
    }
    bool empty = line.pieces.empty() && line.comment.empty();
    bool was_empty = lines.empty() || (lines.back().pieces.empty() && lines.back().comment.empty());
    if (!empty || !was_empty) lines.push_back(std::move(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

class Writer {
 public:
  std::string write(const std::vector<Line>& lines) {
    for (const Line& line : lines) {
      bool empty = line.pieces.empty() && line.comment.empty();
      bool closes = !line.pieces.empty() && line.pieces[0].role == Role::close_block;
      // An empty line separates: none follows an opening bracket, and none precedes a closing one.
      if (empty) {
        separate_ = !out_.empty() && !opened_;
        continue;
      }
      if (separate_ && !closes) out_ += '\n';
      separate_ = false;
      write_line(line);
    }
    return std::move(out_);
  }

 private:
  void write_line(const Line& line) {
    const std::vector<Piece>& pieces = line.pieces;
    int depth = depth_;
    if (!pieces.empty()) {
      if (pieces[0].role == Role::close_block) --depth;
      if (last_ != nullptr && (parens_ > 0 || goes_on(*last_, pieces[0]))) depth += 2;
    }
    out_.append(2 * static_cast<size_t>(std::max(0, depth)), ' ');
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0 && blank_between(pieces[i - 1], pieces[i])) out_ += ' ';
      out_ += pieces[i].raw;
      if (pieces[i].role == Role::open_block) ++depth_;
      if (pieces[i].role == Role::close_block) --depth_;
      if (pieces[i].role == Role::open) ++parens_;
      if (pieces[i].role == Role::close) --parens_;
    }
    if (!line.comment.empty()) {
      if (!pieces.empty()) out_ += "  ";
      out_ += line.comment;
    }
    out_ += '\n';
    if (!pieces.empty()) last_ = &pieces.back();
    opened_ = !pieces.empty() && pieces.back().role == Role::open_block;
  }

  std::string out_;
  int depth_ = 0;
  int parens_ = 0;
  bool separate_ = false;
  bool opened_ = false;          // by the previous line
  const Piece* last_ = nullptr;  // last piece of the previous lines
};

template <class Pieces>
std::string format(std::string_view text, std::string_view file, Pieces&& pieces_of) {
  std::vector<Piece> pieces = pieces_of(text, file);
  std::string out = Writer().write(lines_of(text, pieces));
  std::vector<Piece> again = pieces_of(out, file);
  check_internal(
      std::equal(pieces.begin(), pieces.end(), again.begin(), again.end(),
                 [](const Piece& a, const Piece& b) { return a.raw == b.raw && a.role == b.role; }),
      "formatting changed a text's words");
  return out;
}

}  // namespace

std::string format_step(std::string_view text, std::string_view file) {
  parse_unverified(text, file);
  return format(text, file, step_pieces);
}

std::string format_formula(std::string_view text, std::string_view file) {
  formula::parse_formula(text, file, formula::parse_built_in);
  return format(text, file, formula_pieces);
}

}  // namespace stepfuse
