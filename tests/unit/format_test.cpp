// Formats: the results of their encode and decode steps, and the rewriting of a step to a format.
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/format.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>
#include <stepfuse/recipes.hpp>

#include "ir/semantics/interpreter.hpp"
#include "ir/semantics/narrow.hpp"

using namespace stepfuse;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The stored parts of a tensor's values.
using Parts = std::vector<std::vector<unsigned char>>;

Parts encode(const Format& f, std::vector<float> x) {
  Parts parts;
  StepTensor tensor{.size = x.size(), .data = {}, .dtypes = {}};
  for (const Buffer& b : f.encode.buffers) {
    bool value = b.name == "x";
    if (!value) parts.emplace_back(b.count(x.size(), x.size()) * size_of(b.dtypes.only()));
    tensor.dtypes.push_back(b.dtypes.only());
  }
  size_t part = 0;
  for (const Buffer& b : f.encode.buffers) {
    tensor.data.push_back(b.name == "x" ? static_cast<void*>(x.data()) : parts[part++].data());
  }
  StepData data;
  data.tensors.push_back(tensor);
  interpret(f.encode, data);
  return parts;
}

std::vector<float> decode(const Format& f, Parts parts, size_t size) {
  std::vector<float> x(size);
  StepTensor tensor{.size = size, .data = {}, .dtypes = {}};
  size_t part = 0;
  for (const Buffer& b : f.decode.buffers) {
    tensor.dtypes.push_back(b.dtypes.only());
    tensor.data.push_back(b.name == "x" ? static_cast<void*>(x.data()) : parts[part++].data());
  }
  StepData data;
  data.tensors.push_back(tensor);
  interpret(f.decode, data);
  return x;
}

std::vector<float> some_values(size_t n, bool negative) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    float v = std::ldexp(1.0F + static_cast<float>(i * 37 % 64) / 64, static_cast<int>(i % 11) - 9);
    x[i] = negative && i % 3 == 0 ? -v : v;
  }
  return x;
}

std::string refusal(const std::string& text) {
  try {
    parse_format(text, "mine");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("formats: zeros are kept exactly, as parts of zeros are zeros") {
  for (std::string_view name : list_formats()) {
    CAPTURE(name);
    Format f = built_in_format(name);
    for (size_t n : {1, 31, 256, 700}) {
      std::vector<float> zeros(n, 0.0F);
      Parts parts = encode(f, zeros);
      if (name != "lin4") CHECK(decode(f, parts, n) == zeros);
      for (auto& part : parts) std::fill(part.begin(), part.end(), 0);
      CHECK(decode(f, parts, n) == zeros);
      if (name == "lin4") continue;  // its rule differs: below
      // With unrelated values in the same tensor.
      std::vector<float> x = some_values(n, false);
      for (size_t i = 0; i < n; i += 2) x[i] = 0;
      std::vector<float> back = decode(f, encode(f, x), n);
      for (size_t i = 0; i < n; i += 2) CHECK(back[i] == 0);
    }
  }
}

TEST_CASE("formats: a block with a NaN or an infinity becomes NaN, and no other") {
  for (std::string_view name : list_formats()) {
    for (float bad : {kNaN, kInf}) {
      CAPTURE(name);
      Format f = built_in_format(name);
      std::vector<float> x = some_values(600, false);
      x[300] = bad;
      std::vector<float> back = decode(f, encode(f, x), x.size());
      CHECK(std::isnan(back[300]));
      for (size_t i = 0; i < 256; ++i) CHECK(std::isfinite(back[i]));
      for (size_t i = 512; i < 600; ++i) CHECK(std::isfinite(back[i]));
    }
  }
}

TEST_CASE("fp8: codes and scales are torchao's rule") {
  Format f = built_in_format("fp8");
  std::vector<float> x = some_values(700, true);
  Parts parts = encode(f, x);
  std::vector<float> back = decode(f, parts, x.size());
  for (size_t block = 0; block < 3; ++block) {
    size_t end = std::min(x.size(), 256 * block + 256);
    float widest = 0;
    for (size_t i = 256 * block; i < end; ++i) widest = std::max(widest, std::fabs(x[i]));
    float scale = std::max(widest, 1e-12F) / 448.0F;
    CHECK(std::bit_cast<float>(
              static_cast<uint32_t>(load_bits(&parts[1][4 * block], DType::f32).raw)) == scale);
    for (size_t i = 256 * block; i < end; ++i) {
      uint32_t code = narrow(x[i] / scale, DType::f8e4m3);
      CHECK(parts[0][i] == code);
      CHECK(back[i] == widen(code, DType::f8e4m3) * scale);
      CHECK(std::fabs(back[i] - x[i]) <= std::max(std::fabs(x[i]) / 16, scale * 0x1p-10F));
    }
  }
}

TEST_CASE("companded formats keep small values beside large ones") {
  for (const char* name : {"int8", "sqrt8"}) {
    CAPTURE(name);
    Format f = built_in_format(name);
    std::vector<float> x = some_values(96, std::string_view(name) == "int8");
    std::vector<float> back = decode(f, encode(f, x), x.size());
    for (size_t block = 0; block < 3; ++block) {
      float widest = 0;
      for (size_t i = 32 * block; i < 32 * block + 32; ++i)
        widest = std::max(widest, std::fabs(x[i]));
      for (size_t i = 32 * block; i < 32 * block + 32; ++i) {
        float n = std::fabs(x[i]) / widest;
        // Half a code, by the slope of the curve there.
        float slope =
            std::string_view(name) == "int8" ? (1 + n) * (1 + n) / 254 : 2 * std::sqrt(n) / 510;
        CHECK(std::fabs(back[i] - x[i]) <= widest * (slope * 1.02F + 1e-5F));
        if (n == 1) CHECK(std::fabs(back[i] - x[i]) <= 1e-6F * widest);
      }
    }
  }
}

TEST_CASE(
    "dynamic codes: each is nearest to its own value, and a value between two goes to the nearer") {
  for (const char* name : {"dyn8", "dyn8u"}) {
    CAPTURE(name);
    Format f = built_in_format(name);
    const std::vector<float>& map = f.decode.tables.at(0).values;
    REQUIRE(map.size() == 256);
    CHECK(map.back() == 1);
    CHECK(std::count(map.begin(), map.end(), 0.0F) == 1);
    if (map[0] < 0) {  // every value except 1 occurs with both signs
      for (size_t i = 0; i < 255; ++i) CHECK(map[i] == -map[254 - i]);
    }
    std::vector<float> x = map;  // one block, whose largest magnitude is 1
    Parts parts = encode(f, x);
    for (size_t i = 0; i < 256; ++i) CHECK(parts[0][i] == i);
    CHECK(decode(f, parts, 256) == x);
    for (size_t i = 0; i < 255; ++i) x[i] = map[i] + (map[i + 1] - map[i]) * 0.49F;
    CHECK(encode(f, x)[0] == parts[0]);
    for (size_t i = 0; i < 255; ++i) x[i] = map[i] + (map[i + 1] - map[i]) * 0.51F;
    std::vector<unsigned char> up = encode(f, x)[0];
    for (size_t i = 0; i < 255; ++i) CHECK(up[i] == i + 1);
  }
}

TEST_CASE("4-bit codes: each stands where torchao has it, and is nearest to its own value") {
  for (const char* name : {"dyn4", "lin4"}) {
    CAPTURE(name);
    Format f = built_in_format(name);
    const std::vector<float>& map = f.decode.tables.at(0).values;
    REQUIRE(map.size() == 16);
    CHECK(map.back() == 1);
    // Ragged: the last blocks have 5 elements.
    std::vector<float> x(37);
    std::vector<uint32_t> codes(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      codes[i] = static_cast<uint32_t>(15 - i * 7 % 16);
      x[i] = map[codes[i]] * 3;
    }
    Parts parts = encode(f, x);
    REQUIRE(parts[0].size() == 12);
    REQUIRE(parts[1].size() == 12);
    for (size_t i = 0; i < 48; ++i) {
      unsigned char pair = parts[i % 16 / 8][i / 16 * 4 + i % 8 / 2];
      uint32_t code = i % 2 == 0 ? pair >> 4U : pair & 15U;
      CHECK(code == (i < x.size() ? codes[i] : 0));
    }
    CHECK(decode(f, parts, x.size()) == x);
    for (size_t i = 0; i < 15; ++i) {
      for (float part : {0.49F, 0.51F}) {
        std::vector<float> two = {1, map[i] + (map[i + 1] - map[i]) * part};
        CHECK(decode(f, encode(f, two), 2)[1] == map[i + (part > 0.5F ? 1 : 0)]);
      }
    }
  }
}

TEST_CASE("lin4 has no zero: it becomes the least value of its block") {
  Format f = built_in_format("lin4");
  std::vector<float> x(256, 0.0F);
  x[3] = 8;
  std::vector<float> back = decode(f, encode(f, x), x.size());
  CHECK(back[3] == 8);
  CHECK(back[4] == 0.5F);
  CHECK(back[128] == 1e-12F / 16);
}

TEST_CASE("two buffers in one format share its table, and a table of that name is another's") {
  RecipeOptions o;
  set_option(o, "moments", "dyn8");
  Program p = make_recipe("adamw", o);
  CHECK(p.tables.size() == 1);
  set_option(o, "moments", "exp_avg=dyn8|exp_avg_sq=dyn8u");
  p = make_recipe("adamw", o);
  CHECK(p.tables.size() == 2);
  CHECK(parse(print(p)) == p);
  Format f = built_in_format("dyn8");
  for (Program* step : {&f.encode, &f.decode}) step->tables[0].values[0] = -2;
  p = with_format(make_recipe("adamw", {}), "exp_avg", built_in_format("dyn8"));
  p = with_format(p, "exp_avg_sq", f);
  REQUIRE(p.tables.size() == 2);
  CHECK(p.tables[1].name == "dynamic8.1");
}

TEST_CASE("a step with its moments in a format has their parts for buffers") {
  RecipeOptions o;
  set_option(o, "moments", "fp8");
  Program p = make_recipe("adamw", o);
  CHECK(p.find_buffer("exp_avg") == -1);
  int code = p.find_buffer("exp_avg.fp8.code");
  int scale = p.find_buffer("exp_avg_sq.fp8.scale");
  REQUIRE(code >= 0);
  REQUIRE(scale >= 0);
  CHECK(p.buffers[static_cast<size_t>(code)].dtypes == DTypeSet(DType::f8e4m3));
  CHECK(p.buffers[static_cast<size_t>(scale)].at == per::block(256));
  CHECK(p.buffers[static_cast<size_t>(scale)].init == Buffer::Init::zero);
  CHECK(print(parse(print(p))) == print(p));

  set_option(o, "moments", "exp_avg=int8|exp_avg_sq=sqrt8");
  p = make_recipe("adamw", o);
  CHECK(p.find_buffer("exp_avg_sq.sqrt8.code") >= 0);
  set_option(o, "moments", "exp_avg=f32|exp_avg_sq=sqrt8");
  p = make_recipe("adamw", o);
  CHECK(p.find_buffer("exp_avg") >= 0);
  CHECK(p.find_buffer("exp_avg_sq.sqrt8.code") >= 0);
  set_option(o, "moments", "momentum=int8");
  CHECK_THROWS_WITH_AS(make_recipe("adamw", o), doctest::Contains("exp_avg, exp_avg_sq"), Error);
  CHECK_THROWS_WITH_AS(set_option(o, "moments", "f64"), doctest::Contains("fp8"), Error);
}

TEST_CASE(
    "a conversion decodes one form and encodes another, of everything that floats are kept in") {
  std::vector<std::string_view> forms = list_formats();
  for (DType t : kFloatStorage) forms.push_back(name(t));
  for (std::string_view from : forms) {
    for (std::string_view to : forms) {
      Program p = conversion(from, to);
      for (const Buffer& b : p.buffers) {
        CHECK(b.access == (b.name.starts_with("from") ? Access::in : Access::out));
      }
    }
  }
  Program p = conversion("bf16", "fp8");
  CHECK(p.find_buffer("from") == 0);
  CHECK(p.find_buffer("to.fp8.code") == 1);
  CHECK(p.find_buffer("to.fp8.scale") == 2);
  CHECK_THROWS_WITH_AS(conversion("f32", "i32"), doctest::Contains("fp8"), Error);

  // The encoded values equal the result of format fp8's @encode.
  std::vector<float> x = some_values(700, true);
  Parts parts = encode(built_in_format("fp8"), x);
  std::vector<unsigned char> code(700), scale(3 * sizeof(float));
  StepData data;
  data.tensors.push_back({.size = x.size(),
                          .data = {x.data(), code.data(), scale.data()},
                          .dtypes = {DType::f32, DType::f8e4m3, DType::f32}});
  interpret(conversion("f32", "fp8"), data);
  CHECK(code == parts[0]);
  CHECK(scale == parts[1]);
}

TEST_CASE("moments that an optimizer does not have are kept in nothing") {
  for (const char* form : {"bf16", "fp8", "momentum_buffer=fp8", "momentum_buffer=f32"}) {
    RecipeOptions o;
    set_option(o, "moments", form);
    CHECK_THROWS_WITH_AS(make_recipe("sgd", o), ".moments: sgd has no moments; leave it out",
                         Error);
    o.momentum = true;
    CHECK_NOTHROW(make_recipe("sgd", o));
  }
}

TEST_CASE("every optimizer can keep its moments in every format") {
  for (const RecipeInfo& r : list_recipes()) {
    if (r.name == "accumulate" || r.name == "loss_scale_update") continue;
    for (std::string_view name : list_formats()) {
      CAPTURE(r.name);
      CAPTURE(name);
      RecipeOptions o{.clip = Clip::l2};
      set_option(o, "moments", name);
      try {
        make_recipe(r.name, o);
      } catch (const Error& e) {
        CHECK(std::string_view(e.what()).find("has no moments") != std::string_view::npos);
      }
    }
  }
}

TEST_CASE("a user's format is one more text, and what is no pair is refused") {
  const std::string encode = R"(step @encode {
  buffer @x : f32 in
  buffer @high : bf16 out
  %x = load @x : [f32]
  %high = cast %x : [bf16]
  store @high, %high
}
)";
  const std::string decode = R"(step @decode {
  buffer @high : bf16 in
  buffer @x : f32 out
  %high = load @high : [bf16]
  %x = cast %high : [f32]
  store @x, %x
}
)";
  Format mine = parse_format(encode + decode, "mine");
  Program p = with_format(make_recipe("lion", {}), "exp_avg", mine);
  CHECK(p.find_buffer("exp_avg.mine.high") >= 0);
  CHECK(refusal(encode).find("mine") != std::string::npos);
  CHECK(refusal(decode + encode).find("@encode and @decode") != std::string::npos);
  std::string other = decode;
  other.replace(other.find(": bf16 in"), 9, ": f16 in ");
  other.replace(other.find("[bf16]"), 6, "[f16]");
  CHECK(refusal(encode + other).find("the same parts") != std::string::npos);
  CHECK_THROWS_WITH_AS(with_format(p, "nothing", mine), doctest::Contains("no buffer of that name"),
                       Error);
  CHECK_THROWS_WITH_AS(with_format(make_recipe("adamw", {.master = true}), "master", mine),
                       doctest::Contains("starts as a copy"), Error);
}

namespace {

// A format whose parts have a value for each element, and for `tile` elements.
std::string scaled_pair(std::string_view tile) {
  std::string text = R"(step @encode {
  buffer @x : f32 in
  buffer @code : T out
  buffer @scale : <f32/TILE> out
  %x = load @x : [f32]
  %size = abs %x : [f32]
  %scale = reduce_max %size : <f32/TILE>
  %part = div %x, %scale : [f32]
  %code = cast %part : [T]
  store @code, %code
  store @scale, %scale
}
step @decode {
  buffer @code : T in
  buffer @scale : <f32/TILE> in
  buffer @x : f32 out
  %code = load @code : [T]
  %scale = load @scale : <f32/TILE>
  %wide = cast %code : [f32]
  %x = mul %wide, %scale : [f32]
  store @x, %x
}
)";
  for (size_t at = 0; (at = text.find("TILE", at)) != std::string::npos;) text.replace(at, 4, tile);
  return "type T = bf16 | f8e4m3\n" + text;
}

// A moment with one scale per tensor: a state, from which the next step decodes.
constexpr std::string_view kPerTensor = R"(step @encode {
  buffer @x : f32 in
  buffer @code : f8e4m3 out
  state @scale : <f32> = 1
  %x = load @x : [f32]
  %size = abs %x : [f32]
  %widest = reduce_max %size : <f32>
  %above = max %widest, 1e-12 : <f32>
  %scale = div %above, 448 : <f32>
  %part = div %x, %scale : [f32]
  %code = cast %part : [f8e4m3]
  store @code, %code
  write @scale, %scale
}
step @decode {
  buffer @code : f8e4m3 in
  state @scale : <f32> = 1
  buffer @x : f32 out
  %code = load @code : [f8e4m3]
  %scale = read @scale : <f32>
  %wide = cast %code : [f32]
  %x = mul %wide, %scale : [f32]
  store @x, %x
}
)";

}  // namespace

TEST_CASE("parameters of a format choose types, numbers and lines, and keep the numbers of lines") {
  const std::string head = "type T = bf16 | f8e4m3\nchoice largest = one | type\n";
  std::string text = head + scaled_pair("32").substr(scaled_pair("32").find("step"));
  text.replace(text.find("  %code = cast"), 0,
               "when largest = type\n  %far = mul %part, -T.max : [f32]\nend\n");
  auto made = [&](std::vector<std::string_view> values) {
    return parse_format(text, "mine", values);
  };
  CHECK(made({}).encode.buffers[1].dtypes == DTypeSet(DType::bf16));
  CHECK(made({"f8e4m3"}).encode.buffers[1].dtypes == DTypeSet(DType::f8e4m3));
  auto numbers = [](const Format& f) {
    std::vector<float> found;
    for (const Inst& i : f.encode.insts) {
      if (i.op == Op::constant) found.push_back(i.literal.f32());
    }
    return found;
  };
  CHECK(numbers(made({})).empty());
  CHECK(numbers(made({"type", "f8e4m3"})) == std::vector<float>{-448});
  CHECK_THROWS_WITH_AS(made({"f16"}), doctest::Contains("bf16, f8e4m3, one, type"), Error);
  CHECK(refusal("type T = f9 | bf16\n" + text).find("unknown type 'f9'") != std::string::npos);
  CHECK(refusal("choice a : b\n" + text).find("mine:1:1") != std::string::npos);
  std::string wrong = text;
  wrong.replace(wrong.find("div %x"), 3, "dvi");
  CHECK(refusal(wrong).find("mine:10:") != std::string::npos);
}

TEST_CASE("the built-in variants of one text differ in their parameters alone") {
  CHECK(built_in_format("mxe5m2_rceil").encode == built_in_format("mx-f8e5m2-rceil").encode);
  CHECK(built_in_format("mx-rceil", DType::f8e5m2).decode ==
        built_in_format("mx-f8e5m2-rceil").decode);
  CHECK(built_in_format("mxe4m3").encode == built_in_format("mx").encode);
  CHECK_FALSE(built_in_format("mx").encode == built_in_format("mx-rceil").encode);
  CHECK_THROWS_WITH_AS(built_in_format("mx-up"), doctest::Contains("floor, rceil"), Error);
  CHECK_THROWS_WITH_AS(built_in_format("current", DType::bf16), doctest::Contains("f8e5m2"), Error);
}

TEST_CASE("a value per square is refused in what the step loads, and taken in a copy") {
  Format squares = parse_format(scaled_pair("128x128"), "mine");
  CHECK_THROWS_WITH_AS(with_format(make_recipe("adamw", {}), "exp_avg", squares),
                       doctest::Contains("one chunk would store while another still decodes"),
                       Error);
  Program copy = parse(R"(step @copy {
  buffer @from : f32 in
  buffer @to : f32 out
  %x = load @from : [f32]
  store @to, %x
})");
  Program p = with_format(copy, "to", squares);
  int scale = p.find_buffer("to.mine.scale");
  REQUIRE(scale >= 0);
  CHECK(p.buffers[static_cast<size_t>(scale)].at == per::square(128));
}

TEST_CASE("a moment with a scale per tensor is decoded with the state that the last step left") {
  Program p = with_format(make_recipe("lion", {.check = true}), "exp_avg",
                          parse_format(kPerTensor, "te"), 100);
  int scale = p.find_state("exp_avg.te.scale");
  REQUIRE(scale >= 0);
  CHECK(p.states[static_cast<size_t>(scale)].initial.f32() == 1);
  int writes = 0;
  for (const Inst& i : p.insts) {
    if (i.op != Op::write || i.slot != scale) continue;
    ++writes;
    CHECK(i.predicate != kNoValue);  // of a good step, and of a tensor that is not small
  }
  CHECK(writes == 1);
  CHECK(parse(print(p)) == p);
}

TEST_CASE("what a format may not do is said") {
  std::string text(kPerTensor);
  auto changed = [&](std::string_view from, std::string_view to) {
    std::string other = text;
    other.replace(other.rfind(from), from.size(), to);
    return refusal(other);
  };
  CHECK(changed("state @scale : <f32> = 1", "state @scale : <f32> = 2").find("declare alike") !=
        std::string::npos);
  CHECK(changed("%x = mul %wide, %scale : [f32]",
                "%far = reduce_max %wide : <f32>\n  %x = mul %wide, %far : [f32]")
            .find("a function of the value, its block and states") != std::string::npos);
  CHECK(changed("  write @scale, %scale\n", "  %n = element_count : <i64>\n")
            .find("@encode has element_count") != std::string::npos);
  std::string random = text;
  random.replace(random.find("  buffer @x"), 0, "  arg %salt : i64\n");
  CHECK(refusal(random).find("%seed : i64 and %count : <i64>") != std::string::npos);
  CHECK_THROWS_WITH_AS(with_format(make_recipe("lion", {}), "exp_avg",
                                   built_in_format("rounded-stochastic", DType::bf16)),
                       doctest::Contains("no seed and count are given"), Error);
}
