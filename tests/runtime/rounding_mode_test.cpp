// The caller's rounding mode, and bytes of bools that are neither 0 nor 1: neither changes a bit.
#include <cfenv>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

using namespace stepfuse;

namespace {

struct RoundingMode {
  explicit RoundingMode(int mode) { std::fesetround(mode); }
  ~RoundingMode() { std::fesetround(FE_TONEAREST); }
  RoundingMode(const RoundingMode&) = delete;
  RoundingMode& operator=(const RoundingMode&) = delete;
};

// Everything between text and bits: literals, recipes' constants, arguments, the scaler's options.
std::string everything() {
  std::string out;
  for (const char* type : {"f16", "bf16", "f32", "f64"}) {
    for (const char* number : {"0.1", "0.3", "1e-5", "3.14159265358979", "1e-40", "-0.7"}) {
      std::string t = type, n = number;
      std::string use = t.ends_with("16") ? "cast %c : f32" : "neg %c : " + t;
      std::string result = t.ends_with("16") ? "f32" : t;
      out += print(parse("step @s { report @r : " + result + "\n %c = const " + n + " : " + t +
                         "\n %x = " + use + "\n write @r, %x }"));
    }
  }
  RecipeOptions options{.grad = DType::f16, .loss_scale = LossScale::dynamic, .clip = Clip::l2};
  out += print(make_recipe("adamw", options));
  Layout layout;
  layout.add({.elements = 1, .dtypes = {}});
  Step step(parse("step @s { buffer @grad : f32 inout\n arg %x : f32 = 0.1\n arg %y : f64 = 0.1\n"
                  " %g = load @grad : [f32]\n %p = mul %g, %x : [f32]\n store @grad, %p\n"
                  " report @r : f64\n write @r, %y }"),
            layout, Device::interpreter());
  Args args = step.make_args();
  for (double v : {0.1, 0.3, 1e-5, 1.0 / 3, -0.7}) {
    args.set("x", v);
    double read = args.get(step.arg("x"));
    uint64_t bits = 0;
    std::memcpy(&bits, &read, 8);
    out += std::to_string(bits) + " ";
  }
  LossScaler scaler({.init_scale = 1.0 / 3});
  scaler.write("scale", 0.1);
  double read = scaler.read();
  uint64_t bits = 0;
  std::memcpy(&bits, &read, 8);
  return out + std::to_string(bits);
}

}  // namespace

TEST_CASE("no rounding mode of the caller's changes what is parsed, made or set") {
  std::string expected = everything();
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::string got;
    {
      RoundingMode guard(mode);
      got = everything();
      CHECK(std::fegetround() == mode);
    }
    CHECK(got == expected);
  }
}

TEST_CASE("any byte of a bool is true unless it is 0, on every backend") {
  Program program = parse(R"(step @s {
    state @flag : bool
    arg %given : bool
    report @both : bool
    report @first : i32
    %m = read @flag : bool
    %n = not %m : bool
    %both = and %m, %given : bool
    %one = const 1 : i32
    %zero = const 0 : i32
    %x = select %m, %one, %zero : i32
    write @flag, %n
    write @both, %both
    write @first, %x
  })");
  for (const Device& device : {Device::interpreter(), Device::cpu(1)}) {
    for (uint64_t byte = 0; byte < 256; ++byte) {
      Step step(program, Layout{}, device);
      step.prepare();
      *static_cast<uint8_t*>(step.device_state("flag")) = static_cast<uint8_t>(byte);
      CHECK(step.read_state("flag")[0].raw == (byte != 0));
      step.run({}, DeviceArgs{&byte});
      REQUIRE(step.latest()->at("both") == (byte != 0));
      REQUIRE(step.latest()->at("first") == (byte != 0));
      REQUIRE(step.read_state("flag")[0].raw == (byte == 0));
    }
  }
}
