// Texts that the loader refuses, with errors that name the cause.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tools/ptx_machine/machine.hpp"

using namespace ptx;

namespace {

std::string entry(const std::string& body) {
  return ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
         ".reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>; .reg .b16 %h<4>;\n" +
         body + "\nret;\n}\n";
}

void refused(const std::string& text, ErrorKind kind, const std::string& says) {
  INFO(text);
  Machine machine;
  try {
    machine.load(text);
    FAIL_CHECK("was loaded");
  } catch (const MachineError& error) {
    CHECK_MESSAGE(error.kind() == kind, error.what());
    CHECK_MESSAGE(std::string(error.what()).find(says) != std::string::npos, error.what());
  }
}

}  // namespace

TEST_CASE("an unknown opcode or modifier is an error that names it") {
  refused(entry("frobnicate.u32 %r1, %r2;"), ErrorKind::unknown_opcode, "'frobnicate'");
  refused(entry("call.uni f;"), ErrorKind::unknown_opcode, "'call'");
  refused(entry("add.rn.ftz.f32 %r1, %r2, %r3;"), ErrorKind::unknown_modifier, ".rn.ftz.f32");
  refused(entry("add.rz.f32 %r1, %r2, %r3;"), ErrorKind::unknown_modifier, ".rz.f32");
  refused(entry("div.approx.f32 %r1, %r2, %r3;"), ErrorKind::unknown_modifier, ".approx.f32");
  refused(entry("div.full.f32 %r1, %r2, %r3;"), ErrorKind::unknown_modifier, ".full.f32");
  refused(entry("fma.f32 %r1, %r2, %r3, %r4;"), ErrorKind::unknown_modifier, "'fma'");
  refused(entry("cvt.rz.f32.f64 %r1, %rd1;"), ErrorKind::unknown_modifier, ".rz.f32.f64");
  refused(entry("cvt.f32.f64 %r1, %rd1;"), ErrorKind::unknown_modifier, "cvt.f32.f64");
  refused(entry("ld.acquire.global.u32 %r1, [%rd1];"), ErrorKind::unknown_modifier, "'ld'");
  refused(entry("ld.global.gpu.u32 %r1, [%rd1];"), ErrorKind::unknown_modifier, ".global.gpu");
  refused(entry("atom.global.add.f32 %r1, [%rd1], %r2;"), ErrorKind::unknown_modifier, ".add.f32");
  refused(entry("setp.lo.f32 %p1, %r1, %r2;"), ErrorKind::unknown_modifier, ".lo.f32");
  refused(entry(".noise 5;"), ErrorKind::unknown_opcode, ".noise");
  std::string text = entry("call.uni f;");
  text.insert(text.find(".visible"), ".func f() { { ret; } }\n");
  refused(text, ErrorKind::unknown_opcode, "'call'");
  refused(".version 9.0\n.target sm_90\n.func f() { ret;", ErrorKind::syntax, "not closed");
}

TEST_CASE("functions that nobody calls are passed over") {
  std::string text = entry("mov.u32 %r1, 5;");
  text.insert(text.find(".visible"), ".func (.param .b32 r) f(.param .b32 p) { { ret; } }\n");
  Machine machine;
  CHECK(machine.load(text)->find("k") != nullptr);
  CHECK(machine.load(text)->find("f") == nullptr);
}

TEST_CASE("operands of the wrong kind, width or number are errors") {
  refused(entry("add.u32 %rd1, %r2, %r3;"), ErrorKind::bad_operand, "a .b64 register");
  refused(entry("add.u32 %r1, %r2;"), ErrorKind::bad_operand, "these operands");
  refused(entry("add.u32 %r1, %r2, %r3, %r4;"), ErrorKind::bad_operand, "these operands");
  refused(entry("add.u32 5, %r2, %r3;"), ErrorKind::bad_operand, "must be a register");
  refused(entry("add.f32 %r1, %r2, 1;"), ErrorKind::bad_operand, "integer constant");
  refused(entry("add.f32 %r1, %r2, 0d3FF0000000000000;"), ErrorKind::bad_operand, "another width");
  refused(entry("@%r1 mov.u32 %r2, 0;"), ErrorKind::bad_operand, "a .b32 register");
  refused(entry("ld.global.v2.u32 %r1, [%rd1];"), ErrorKind::bad_operand, "vector's length");
  refused(entry("ld.global.v4.u32 {%r1, %r2}, [%rd1];"), ErrorKind::bad_operand, "vector's length");
  std::string wide = entry("ld.global.v8.b64 {_, _, _, _, _, _, _, %rd1}, [%rd1];");
  refused(wide.replace(wide.find("sm_90"), 5, "sm_100"), ErrorKind::bad_operand,
          "more than 32 bytes");
  refused(entry(".reg .f32 %f; add.u32 %r1, %r2, %f;"), ErrorKind::bad_operand, ".f32 register");
  refused(entry(".reg .f32 %f; add.u32 %f, %r2, %r3;"), ErrorKind::bad_operand, ".f32 register");
  refused(entry(".reg .u32 %u; add.f32 %u, %r2, %r3;"), ErrorKind::bad_operand, ".u32 register");
  refused(entry("add.u32 %r1, %r2, 0f3F800000;"), ErrorKind::bad_operand, "an integer belongs");
  refused(entry("bar.sync 16;"), ErrorKind::bad_operand, "no barrier 16");
  refused(entry("bar.red.popc.u32 %r1, 16, %p1;"), ErrorKind::bad_operand, "no barrier 16");
  refused(entry(".shared .b8 big[49153];"), ErrorKind::bad_operand, "at most 49152");
  refused(entry("setp.eq.and.u32 %p1, %r1, %r2;"), ErrorKind::bad_operand, "third source");
  refused(entry("setp.eq.u32 %p1, %r1, %r2, %p2;"), ErrorKind::bad_operand, "third source");
  refused(entry("selp.u32 %r1, !%r2, %r3, %p1;"), ErrorKind::bad_operand, "negated");
  refused(entry("st.global.u32 %r1, [%rd1];"), ErrorKind::bad_operand, "these operands");
}

TEST_CASE("a module may use what its .version and .target have") {
  auto as = [](const char* version, const char* target, const std::string& body) {
    std::string text = entry(body);
    text.replace(text.find("9.0"), 3, version);
    return text.replace(text.find("sm_90"), 5, target);
  };
  const std::string bf16 = "cvt.rn.bf16.f32 %h1, 0f3F800000;";
  refused(as("9.0", "sm_75", bf16), ErrorKind::unknown_modifier, "needs .target sm_80");
  refused(as("9.0", "sm_75", "redux.sync.add.u32 %r1, 1, 1;"), ErrorKind::unknown_modifier,
          "sm_80");
  refused(as("9.0", "sm_90", "st.global.v8.b32 [%rd1], {1, 2, 3, 4, 5, 6, 7, 8};"),
          ErrorKind::unknown_modifier, "needs .target sm_100");
  refused(as("7.8", "sm_80", "ld.param::entry.u64 %rd1, [p];"), ErrorKind::unknown_modifier,
          "needs .version 8.3");
  refused(as("7.0", "sm_90", ""), ErrorKind::syntax, "sm_90 needs .version 7.8");
  refused(as("9.0", "sm_91", ""), ErrorKind::syntax, "unknown target sm_91");
  refused(as("10.0", "sm_90", ""), ErrorKind::syntax, "newer");
  refused(as("x", "sm_90", ""), ErrorKind::syntax, "'x' is not a version");
  Machine machine;
  CHECK(machine.load(as("7.0", "sm_80", bf16)) != nullptr);
  CHECK(machine.load(as("9.0", "sm_90a", bf16)) != nullptr);
}

TEST_CASE("names that nothing declares are errors") {
  refused(entry("mov.u32 %r9, 0;"), ErrorKind::bad_operand, "must be a register");
  refused(entry("mov.u32 %r1, %r9;"), ErrorKind::unresolved_symbol, "'%r9'");
  refused(entry("mov.u32 %r1, %nosuch;"), ErrorKind::unresolved_symbol, "'%nosuch'");
  refused(entry("bra NOWHERE;"), ErrorKind::unresolved_symbol, "'NOWHERE'");
  refused(entry("ld.param.u64 %rd1, [q];"), ErrorKind::unresolved_symbol, "'q'");
  refused(entry("{ .reg .b32 %own; } mov.u32 %r1, %own;"), ErrorKind::unresolved_symbol, "'%own'");
}

TEST_CASE("text that is no PTX is an error with its line") {
  refused(".version 9.0\n.target sm_90\n?", ErrorKind::syntax, "line 3");
  refused(entry("mov.u32 %r1 0;"), ErrorKind::syntax, "line 7: expected ';'");
  refused(entry("mov.u32 %r1, 0f12;"), ErrorKind::syntax, "'0f12'");
  refused(entry("mov.u32 %r1, 12x;"), ErrorKind::syntax, "'12x'");
  refused(".address_size 32", ErrorKind::syntax, "64-bit");
}

TEST_CASE("launches that cannot start are errors") {
  Machine machine;
  auto module = machine.load(entry(""));
  std::vector<std::byte> params(8);
  auto launch = [&](const LaunchShape& shape, std::size_t bytes) {
    std::string message;
    try {
      machine.launch(module->kernels()[0], shape, std::span(params).first(bytes));
    } catch (const MachineError& error) {
      CHECK(error.kind() == ErrorKind::bad_launch);
      message = error.what();
    }
    return message;
  };
  CHECK(launch({.grid = {1}, .block = {1}}, 8) == "");
  CHECK(launch({.grid = {1}, .block = {1025}}, 8) != "");
  CHECK(launch({.grid = {0}, .block = {1}}, 8) != "");
  CHECK(launch({.grid = {1}, .block = {1}}, 4) != "");
}

TEST_CASE("constants, globals and their initial values") {
  Machine machine;
  auto module = machine.load(R"(
.version 9.0
.target sm_90
.address_size 64
.const .align 4 .b32 table[3] = {5, 0x10, -1};
.global .f32 one = 0f3F800000;
.global .align 8 .b8 zeros[16];
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<6>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.const.u32 %r1, [table+4];
  ld.global.u32 %r2, [one];
  mov.u64 %rd2, zeros;
  ld.global.u32 %r3, [%rd2+12];
  st.global.v4.u32 [%rd1], {%r1, %r2, %r3, 7};
  ret;
}
)");
  u64 out = machine.memory().allocate(16);
  machine.launch(*module->find("k"), {}, std::as_bytes(std::span(&out, 1)));
  std::array<u32, 4> got{};
  machine.memory().read(got.data(), out, 16);
  CHECK(got == std::array<u32, 4>{16, 0x3F800000, 0, 7});
  u64 bytes = 0;
  CHECK(module->global("table", &bytes) != 0);
  CHECK(bytes == 12);
  CHECK(module->global("nothing") == 0);
}
