// Texts have one form: what it is, that it changes no words, and that all shipped files are in it.
// Knows ir.
#include "ir/text/text_format.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/error.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>
#include <stepfuse/recipes.hpp>

#include "tests/source_dir.hpp"

using namespace stepfuse;
namespace fs = std::filesystem;

namespace {

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string in_form(const std::string& text, const std::string& file) {
  return file.ends_with(".opt") ? format_formula(text, file) : format_step(text, file);
}

// The same words with other blanks.
std::string spoiled(const std::string& text) {
  std::string out;
  bool comment = false, quoted = false, begins = true;
  for (char c : text) {
    if (c == '/') comment = true;
    if (c == '"' && !comment) quoted = !quoted;
    if (begins && c == ' ') continue;
    begins = c == '\n';
    if (begins) comment = false;
    if (c == ' ' && !comment && !quoted) out += "  \t";
    out += c;
    if (begins) out += out.size() % 3 == 0 ? "\n \n\n" : "\t ";
  }
  return out;
}

}  // namespace

TEST_CASE("every shipped text is in form, and comes back into it") {
  int count = 0;
  for (const char* folder : {"ir/optimizers", "samples/steps", "tests/unit"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(STEPFUSE_SOURCE_DIR) / folder)) {
      std::string file = entry.path().string();
      if (!file.ends_with(".sf") && !file.ends_with(".opt")) continue;
      CAPTURE(file);
      std::string text = contents(file);
      CHECK(in_form(text, file) == text);
      std::string other = in_form(spoiled(text), file);
      CHECK(in_form(other, file) == other);
      if (file.ends_with(".sf")) CHECK(parse(other) == parse(text));
      ++count;
    }
  }
  CHECK(count > 30);
}

TEST_CASE("the form of a formula") {
  CHECK(format_formula("optimizer o \"an  o\"{ // first\n\n\n"
                       "hyper lr=1e-3,beta=.9,\n  eps= -1\nmoment m:f32=w\n"
                       "def f(x,y){let z=x\nreturn -z*y}\n"
                       "\n\n// of m\nif!(profile==apex)&&decay!=l2{let a=-(g)^2*-m}else{let a=g}\n"
                       "m=m+(1-beta) *\ng where !isfinite( m )||m< -1   // here\n"
                       "w=w-(lr>0?a:f(m,eps)\n- 1)\n\n}\n",
                       "o.opt") ==
        "optimizer o \"an  o\" {  // first\n"
        "  hyper lr = 1e-3, beta = .9,\n      eps = -1\n  moment m : f32 = w\n"
        "  def f(x, y) { let z = x\n    return -z * y }\n"
        "\n  // of m\n  if !(profile == apex) && decay != l2 { let a = -(g)^2 * -m } else { let a "
        "= g }\n"
        "  m = m + (1 - beta) *\n      g where !isfinite(m) || m < -1  // here\n"
        "  w = w - (lr > 0 ? a : f(m, eps)\n      - 1)\n}\n");
}

TEST_CASE("the form of a step") {
  CHECK(format_step("step @s{\nbuffer @g:f16|f32 in\n state @k:<i64>=3\narg %a:{f64}= -1e-3\n"
                    "%x=load @g:[@g] // raw\n%y=cast %x:\n[f32]\n%c=const bits( 0x7fc00000 ):f32\n"
                    "%p=lt %y ,%c:[bool]\n\n\n\n%k=reduce_any %p:bool\nreport @r:bool\n"
                    "write @r,%k\nif %k}",
                    "s.sf") ==
        "step @s {\n  buffer @g : f16|f32 in\n  state @k : <i64> = 3\n  arg %a : {f64} = -1e-3\n"
        "  %x = load @g : [@g]  // raw\n  %y = cast %x :\n      [f32]\n"
        "  %c = const bits(0x7fc00000) : f32\n  %p = lt %y, %c : [bool]\n\n"
        "  %k = reduce_any %p : bool\n  report @r : bool\n  write @r, %k\n      if %k }\n");
}

TEST_CASE("what is no step or formula is not put into form") {
  CHECK_THROWS_WITH_AS(format_step("step @s {", "s.sf"), doctest::Contains("s.sf:1:10"), Error);
  CHECK_THROWS_WITH_AS(format_formula("optimizer o { w = }", "o.opt"),
                       doctest::Contains("o.opt:1:19"), Error);
}

TEST_CASE("what is put into form means the same: words of the language are no names") {
  for (const char* word : {"if", "else", "where", "return"}) {
    std::string name(word);
    CAPTURE(name);
    for (const std::string& line :
         {"def " + name + "(x) = x\nw = w - " + name + "(g)", "let " + name + " = g\nw = w - g",
          "def f(" + name + ") = g\nw = w - f(g)", "hyper " + name + " = 1\nw = w - g",
          "moment " + name + "\nw = w - g", "output " + name + " = g"}) {
      CHECK_THROWS_WITH_AS(format_formula("optimizer o {\n" + line + "\n}\n", "o.opt"),
                           doctest::Contains("is a word of the language; choose a different name"),
                           Error);
    }
  }
}
