// Texts that are no steps: each a clear error with its place, at once, whatever the size. Knows ir.
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>

#include "ir/program/unused.hpp"
#include "tests/support/processor_time.hpp"

using namespace stepfuse;

namespace {

struct Failure {
  std::string message;
  SourceLoc loc;
  double sorts = 0;
};

Failure failure_of(const std::string& text) {
  Failure f;
  testing::ProcessorTime time;
  try {
    parse(text, "f.sf");
  } catch (const Error& e) {
    f.message = e.what();
    f.loc = e.loc();
  }
  f.sorts = time.sorts();
  return f;
}

void check(const std::string& text, int line, int column, const std::string& fragment) {
  Failure f = failure_of(text);
  CAPTURE(text);
  CAPTURE(f.message);
  CHECK(f.loc.line == line);
  CHECK(f.loc.column == column);
  CHECK(f.message.find(fragment) != std::string::npos);
}

std::string repeat(std::string_view what, size_t bytes) {
  std::string out;
  out.reserve(bytes + what.size());
  while (out.size() < bytes) out += what;
  return out;
}

constexpr size_t kTenMegabytes = 10'000'000;

// Refused, or (for valid ones) accepted, in processor time that grows no faster than the text, with a
// message that a terminal can show.
void check_fast(const std::string& text, bool valid = false) {
  Failure f = failure_of(text);
  CAPTURE(f.message.substr(0, 300));
  CHECK(f.message.empty() == valid);
  CHECK(f.message.size() < 20'000);
  CHECK(f.sorts < 140);  // usually below 15
}

}  // namespace

TEST_CASE("an error shows its line as text, whatever bytes it has") {
  auto shown = [](const std::string& line, int column) {
    std::string all = render_at("f", line, {1, column}, "m");
    return all.substr(all.find('\n') + 1);
  };
  CHECK(shown("ab", 2) == "  ab\n   ^");
  // Valid UTF-8 stays, and the caret stands under the character whatever its bytes.
  CHECK(shown("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80x", 10) ==
        "  \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80x\n     ^");
  CHECK(shown("\xc3\xa9x", 2) == "  \xc3\xa9x\n  ^");
  // Stray, cut and overlong sequences, surrogates, what lies beyond Unicode, control characters.
  CHECK(shown("\xff\x80", 1) == "  ??\n  ^");
  CHECK(shown("\xe2\x82", 1) == "  ??\n  ^");
  CHECK(shown("\xc0\xaf", 1) == "  ??\n  ^");
  CHECK(shown("\xe0\x80\xaf", 1) == "  ???\n  ^");
  CHECK(shown("\xed\xa0\x80", 1) == "  ???\n  ^");
  CHECK(shown("\xf4\x90\x80\x80", 1) == "  ????\n  ^");
  CHECK(shown("\x1b[31m\t\xc2\x9bm", 1) == "  ?[31m ?m\n  ^");
  CHECK(shown("a", 3) == "  a\n    ^");
  // A window of a long line that begins within a character.
  std::string eights = repeat("\xe2\x82\xac", 3000);
  CHECK(shown(eights, 1001).find("\n  ") > 90);
  CHECK(shown(std::string(300, '\xff'), 200).find('\xff') == std::string::npos);
}

TEST_CASE("malformed: syntax") {
  check("", 1, 1, "expected 'step', but the text ends here");
  check("   \n\n  ", 3, 3, "expected 'step', but the text ends here");
  check("stop @s {}", 1, 1, "expected 'step', found 'stop'");
  check("step s {}", 1, 6, "expected the step's @name");
  check("step @s", 1, 8, "expected '{', but the text ends here");
  check("step @s {\n", 2, 1, "the text ends here");
  check("step @s {\n  %x = const 1 : f32\n", 3, 1, "the text ends here");
  check("step @s {\n}\nstep @t {\n}\n", 3, 1, "a file holds one step");
  check("step @s {\n  %x\n}\n", 2, 5, "expected '=', but the line ends here");
  check("step @s {\n  % = const 1 : f32\n}\n", 2, 3, "a name must follow '%'");
  check("step @s {\n  %x = add %y, %z : f32\n}\n", 2, 12, "undefined value %y");
  check("step @s {\n  %x = add\n}\n", 2, 11,
        "expected a %value or a number, but the line ends here");
  check("step @s {\n  %x = add }\n", 2, 12, "expected a %value or a number, found '}'");
  check("step @s {\n  %x = const 1\n  %y = neg %x : f32\n}\n", 2, 15,
        "expected its type, as in ': [f32]', but the line ends here");
  check("step @s {\n  %x = store @w, %x\n}\n", 2, 8, "unknown op 'store'");
  check("step @s {\n  %x = sqroot %x : f32\n}\n", 2, 8, "unknown op 'sqroot'");
  check("step @s {\n  store @w, %x\n}\n", 2, 9, "undefined buffer @w: declare it first");
  check("step @s {\n  write @w, %x\n}\n", 2, 9, "undefined state @w: declare it first");
  check("step @s {\n  %x = read @w : f32\n}\n", 2, 13, "undefined state @w");
  std::string declared = "step @s {\n  buffer @b : f32 in state @k : f32\n  ";
  check(declared + "store @k, 0\n}\n", 3, 9, "@k is a state: use write");
  check(declared + "write @b, 0\n}\n", 3, 9, "@b is a buffer: use store");
  check(declared + "%x = load @k : f32\n}\n", 3, 13, "@k is a state: use read");
  check(declared + "%x = read @b : f32\n}\n", 3, 13, "@b is a buffer: use load");
  check("step @s {\n  %x = const 1 : f8\n}\n", 2, 18, "unknown type 'f8'");
  check("step @s {\n  %x = const 1 : [f32\n}\n", 2, 22, "expected ']', but the line ends here");
  check("step @s {\n  %x = const 1 : [[f32]]\n}\n", 2, 19, "expected a type");
  check("step @s {\n  %x = const 1 : @w\n}\n", 2, 18, "undefined buffer @w");
  check("step @s {\n  buffer @w : f32\n}\n", 2, 18, "expected in, out or inout");
  check("step @s {\n  buffer @w : f32 in = @m\n}\n", 2, 24, "undefined buffer @m");
  check("step @s {\n  %x = const 1 : f32\n  %x = const 2 : f32\n}\n", 3, 3, "%x is defined twice");
  check("step @s {\n  $x = 1\n}\n", 2, 3, "unexpected character (code 36)");
  check("step @s {\n  %caf\xc3\xa9 = 1\n}\n", 2, 7, "unexpected character (code 195)");
  check(std::string("step @s {\n  \0 }", 15), 2, 3, "unexpected character (code 0)");
  check(std::string(1, '\0'), 1, 1, "unexpected character (code 0)");
}

TEST_CASE("malformed: literals") {
  auto literal = [](const std::string& text) {
    return "step @s {\n  %x = const " + text + "\n}\n";
  };
  check(literal("0x10 : i32"), 2, 14, "'0x10' is not a constant of type i32");
  check(literal("2147483648 : i32"), 2, 14, "is not a constant of type i32");
  check(literal("1.5 : i64"), 2, 14, "is not a constant of type i64");
  check(literal("1.5.5 : f32"), 2, 14, "is not a constant of type f32");
  check(literal("8 : f4e2m1"), 2, 14, "'8' is beyond the numbers of type f4e2m1: write 6, or less");
  check(literal("nan : f4e2m1"), 2, 14, "type f4e2m1 has no NaN");
  check(literal("0 : f8e8m0"), 2, 14, "'0' is beyond the numbers of type f8e8m0, which are powers");
  check(literal("-1 : f8e8m0"), 2, 14, "'-1' is beyond the numbers of type f8e8m0");
  check(literal("inf : f8e8m0"), 2, 14, "is beyond the numbers of type f8e8m0");
  check(literal("1e999 : f64"), 2, 14, "beyond the numbers of type f64");
  check(literal("1 : bool"), 2, 14, "a bool constant is true or false");
  check(literal("bits(zz) : f32"), 2, 19, "takes a hexadecimal number");
  check(literal("bits(0x12345678901234567) : i64"), 2, 19, "takes a hexadecimal number");
  check(literal("bits 1 : f32"), 2, 19, "");
  std::string head = "step @s {\n  buffer @w : f16|f32 inout\n  %a = const 2 : f32\n  ";
  check(head + "%b = add %a, 1.5.5 : f32\n}\n", 4, 16, "is not a constant of type f32");
  check(head + "%b = lt 1, 2 : bool\n}\n", 4, 11, "lt takes a %value here: write %c = const");
  check(head + "%b = cast 1 : f32\n}\n", 4, 13, "cast takes a %value here");
  check(head + "store @w, 1\n}\n", 4, 13, "cast a const");
}

TEST_CASE("malformed: a fault of types is shown at the operand, the predicate or the type") {
  std::string head =
      "step @s {\n  buffer @w : f32 inout\n  %x = load @w : [f32]\n  %i = const 2 : i32\n"
      "  store @w, %x\n  ";
  check(head + "%y = mul %x, %i : [f32]\n}\n", 6, 16, "one dtype");
  check(head + "%y = fma %x, %x, %i : [f32]\n}\n", 6, 20, "one dtype");
  check(head + "%y = mul %x, %x : [i32]\n}\n", 6, 21, "the result of mul has dtype f32");
  check(head + "%y = mul %x, %x : f32\n}\n", 6, 21, "its finest operand: [f32]");
  check(head + "%y = select %x, %x, %x : [f32]\n}\n", 6, 15, "select takes");
  check(head + "%y = reduce_add %x : [f32]\n}\n", 6, 24, "reduce_add of a per-element value");
  check(head + "state @k : f32 write @k, %x\n}\n", 6, 28, "cannot be written");
  check(head + "state @k : i32 write @k, %i if %i\n}\n", 6, 34, "the predicate has type i32");
}

TEST_CASE("malformed: an arg that stands too late is reported once") {
  Failure f = failure_of(
      "step @s {\n  report @r : f32\n  %z = const 1 : f32\n  arg %a : f32\n"
      "  arg %b : f32\n  write @r, %z\n}\n");
  CHECK(f.loc.line == 4);
  CHECK(f.message.find("arg %a must stand before") != std::string::npos);
  CHECK(f.message.find("[V15]") == f.message.rfind("[V15]"));
}

TEST_CASE("a number stands where a value may") {
  Program p = parse(
      "step @s {\n  buffer @w : f32 inout\n  state @k : <i64>\n  arg %lr : f64\n"
      "  %c_0_5_f32 = const 3 : f32\n  %x = load @w : [f32]\n  %half = mul %x, 0.5 : [f32]\n"
      "  %more = fma %half, 0.5, -1e-05 : [f32]\n  %big = gt %more, 1e+05 : [bool]\n"
      "  %y = select %big, %c_0_5_f32, %more : [f32]\n  %p = powi %lr, 3 : f64\n"
      "  %q = cast %p : f32\n  %r = max %y, %q : [f32]\n  %z = clamp %r, -inf, 0.5 : [f32]\n"
      "  store @w, %z\n  write @k, 7\n}\n");
  std::string text = print(p);
  auto has = [&](const char* part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has("%c_0_5_f32.1 = const 0.5 : f32");
  has("%half = mul %x, %c_0_5_f32.1 : [f32]");
  has("%c_3_i64 = const 3 : i64");
  has("clamp %r, %c__inf_f32, %c_0_5_f32.1");
  has("write @k, %c_7_i64");
  CHECK(parse(text) == p);
}

TEST_CASE("what nothing needs is named") {
  Program p = parse(
      "step @s {\n  buffer @w : f32 inout\n  buffer @old : f32 in\n  state @k : f32\n"
      "  arg %lr : f32\n  %x = load @w : [f32]\n  %sum = reduce_add %x : f32\n  store @w, 0\n}\n");
  std::vector<std::string> said;
  for (const Diagnostic& d : find_unused(p)) said.push_back(d.message);
  REQUIRE(said.size() == 4);
  CHECK(said[0] == "buffer @old is never used: remove it");
  CHECK(said[1] == "state @k is never used: remove it");
  CHECK(said[2] == "arg %lr is never used: remove it");
  CHECK(said[3] == "the reduction %sum is never used: remove it");
}

TEST_CASE("malformed: the caret stands under the column, in a window of a long line") {
  std::string text = "step @s { " + repeat("// ", 0) + repeat(" ", 5000) + "$" + repeat("x", 5000);
  Failure f = failure_of(text);
  CHECK(f.loc.column == 5011);
  CHECK(f.message.size() < 400);
  size_t caret = f.message.rfind('^');
  size_t line = f.message.rfind('\n');
  size_t before = f.message.rfind('\n', line - 1);
  CHECK(f.message[before + (caret - line)] == '$');
}

TEST_CASE("malformed: 10 MB of noise is refused at once") {
  std::string head = "step @s {\n";
  for (const char* what :
       {"{", "}", "[", "<", "(", "%", "@", "%a ", "@a ", "x", "\n", " ", "0", "// comment\n",
        "step @s {\n", "buffer @w : f32 in\n", ", ", "= ", "-"}) {
    CAPTURE(what);
    check_fast(repeat(what, kTenMegabytes));
    check_fast(head + repeat(what, kTenMegabytes));
    check_fast(head + "  %x = const " + repeat(what, kTenMegabytes));
  }
  std::string bytes(kTenMegabytes, '\0');
  check_fast(bytes);
  uint32_t noise = 1;
  for (char& c : bytes) c = static_cast<char>((noise = noise * 1664525 + 1013904223) >> 24);
  check_fast(bytes);
  check_fast(head + bytes);
  for (char& c : bytes) c = "{}[]<>:,=|()@%abc019_.+- \n"[static_cast<unsigned char>(c) % 26];
  check_fast(bytes);
  check_fast(head + bytes);
}

TEST_CASE("malformed: megabytes of almost valid statements take time in proportion") {
  auto many = [](const std::function<std::string(std::string)>& line) {
    std::string out = "step @s {\n  report @r : f32\n  %z = const 1 : f32\n";
    for (int i = 0; out.size() < kTenMegabytes / 4; ++i) out += line(std::to_string(i));
    return out + "  write @r, %z\n}\n";
  };
  check_fast(many([](auto i) {
               return "buffer @b" + i + " : f32 in\n%l" + i + " = load @b" + i + " : [f32]\n";
             }),
             true);
  check_fast(many([](auto i) { return "%v" + i + " = neg %z : f32\n"; }), true);
  check_fast(many([](auto) { return "state @s : [f32]\n"; }));
  check_fast(many([](auto) { return "buffer @s : f64 in\n"; }));
  check_fast(many([](auto i) { return "%v" + i + " = neg %z : [f32]\n"; }));
  check_fast(many([](auto i) { return "arg %a" + i + " : f32\n"; }));
  check_fast(many([](auto) { return "stage x+y\n"; }));
  check_fast(many([](auto) { return "write @r, %z\n"; }));
  std::string name = repeat("long", kTenMegabytes);
  check_fast("step @" + name + " {\n  %x = load @" + name + " : f32\n}\n");
  check_fast("step @s {\n  buffer @" + name + " : f64 in\n  buffer @" + name + " : f64 in\n}\n");
}

TEST_CASE("malformed: every prefix of a valid text, and every text with one byte changed") {
  const std::string text =
      "step @s { buffer @w:f16|f32 inout = 0 state @k:<i64> shared = 3 report @r:{f32} arg %a:{f64}"
      " = 1e-3 stage one %x=load @w:[@w] %y=cast %x:[f32] %c=const bits(0x7fc00001):f32"
      " %z=fma %y,%y,%c:[f32] %p=isfinite %z:[bool] %q=cast %z:[@w] store @w,%q if %p }";
  auto survives = [](const std::string& t) {
    try {
      print(parse(t));
    } catch (const Error& e) {
      CHECK(e.loc().line >= 0);
    }
  };
  for (size_t n = 0; n <= text.size(); ++n) survives(text.substr(0, n));
  for (size_t n = 0; n < text.size(); ++n) {
    for (char c : {'\0', ' ', '{', '}', '@', '%', ':', '9', 'x', '\xff'}) {
      std::string changed = text;
      changed[n] = c;
      survives(changed);
    }
    survives(text.substr(0, n) + text.substr(n + 1));
  }
}
