// Wraps instructions into an entry, runs them, compares.
#include "tests/ptx_machine/opcodes/harness.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tools/ptx_machine/machine.hpp"

namespace ptx::opcodes {
namespace {

constexpr const char* kNames[] = {"a", "b", "c", "e"};

std::set<u16>& seen() {
  static std::set<u16> rows;
  return rows;
}

// Registers are declared .b by width, so that a case may use a value under several types.
std::string declared(const std::string& type) {
  if (type == "pred") return ".pred";
  if (type.ends_with("64")) return ".b64";
  return type.ends_with("16") ? ".b16" : ".b32";
}

std::string load(const std::string& type, const char* name, std::size_t at) {
  if (type != "pred") {
    std::string width = declared(type).substr(2);
    return fmt::format(
        "ld.param.b64 %in, [in]; mad.wide.u32 %in, %row, {}, %in;\n"
        "ld.global.b{} %{}, [%in+{}];\n",
        "STRIDE", width, name, 8 * at);
  }
  return fmt::format(
      "ld.param.b64 %in, [in]; mad.wide.u32 %in, %row, STRIDE, %in;\n"
      "ld.global.b32 %bit, [%in+{}]; setp.ne.u32 %{}, %bit, 0;\n",
      8 * at, name);
}

std::string entry_of(const Case& test) {
  std::string text = R"(.version 9.0
.target sm_120
.address_size 64
.visible .entry test(.param .u64 in, .param .u64 out, .param .u64 scratch, .param .u32 count)
{
.shared .align 16 .b8 block[4096];
.reg .b64 %in, %out, %scratch; .reg .b32 %row, %bit, %count; .reg .pred %last;
.reg .b32 %x<8>; .reg .b64 %y<8>; .reg .b16 %h<4>; .reg .pred %q<4>;
ld.param.u64 %scratch, [scratch];
mov.u32 %row, %tid.x;
)";
  for (std::size_t k = 0; k < test.in.size(); ++k) {
    text += fmt::format(".reg {} %{};\n", declared(test.in[k]), kNames[k]);
    text += load(test.in[k], kNames[k], k);
  }
  for (std::size_t at; (at = text.find("STRIDE")) != std::string::npos;) {
    text.replace(at, 6, std::to_string(8 * test.in.size()));
  }
  text += fmt::format(".reg {} %d;\n{}\n", declared(test.out), test.text);
  text += "ld.param.u64 %out, [out]; mad.wide.u32 %out, %row, 8, %out;\n";
  if (test.out == "pred") {
    text += "selp.u32 %bit, 1, 0, %d; st.global.u32 [%out], %bit;\n";
  } else {
    text += fmt::format("st.global{} [%out], %d;\n", declared(test.out));
  }
  return text + "ret;\n}\n";
}

bool is_nan(u64 bits, const std::string& type) {
  return type == "f32" ? (bits & 0x7FFFFFFF) > 0x7F800000
                       : (bits & ~(u64{1} << 63)) > 0x7FF0000000000000;
}

}  // namespace

const std::set<u16>& rows_seen() { return seen(); }

std::vector<u64> run(const Case& test, Stepping stepping) {
  Machine machine;
  auto module = machine.load(entry_of(test));
  const Kernel& kernel = *module->find("test");
  // Only the statements of the case: the frame around them uses loads, stores and more.
  for (std::size_t k = 0; k < kernel.text.size(); ++k) {
    bool of_case =
        kernel.text[k].number != 0 && test.text.find(kernel.text[k].text) != std::string::npos;
    if (of_case) seen().insert(kernel.rows[k]);
  }
  auto count = static_cast<u32>(test.rows.size());
  std::vector<u64> values;
  for (const Case::Row& row : test.rows) {
    REQUIRE(row.in.size() == test.in.size());
    values.insert(values.end(), row.in.begin(), row.in.end());
  }
  values.push_back(0);
  Memory& memory = machine.memory();
  u64 in = memory.allocate(8 * values.size(), "the inputs");
  u64 out = memory.allocate(8 * u64{count}, "the results");
  u64 scratch = memory.allocate(4096, "the scratch");
  memory.write(in, values.data(), 8 * values.size());
  memory.fill(out, count, 0, 8);
  memory.fill(scratch, 512, 0, 8);
  struct {
    u64 in, out, scratch;
    u32 count;
  } params{in, out, scratch, count};
  auto bytes = std::as_bytes(std::span(&params, 1)).first(kernel.param_bytes);
  machine.launch(kernel, {.grid = {1}, .block = {count}}, bytes, {.seed = 2, .stepping = stepping});
  std::vector<u64> results(count);
  memory.read(results.data(), out, 8 * u64{count});
  return results;
}

namespace {

void check(const Case& test, Stepping stepping) {
  INFO(test.text);
  std::vector<u64> got;
  try {
    got = run(test, stepping);
  } catch (const MachineError& error) {
    FAIL_CHECK(error.what());
    return;
  }
  for (std::size_t k = 0; k < got.size(); ++k) {
    if (test.any_nan && is_nan(test.rows[k].want, test.out) && is_nan(got[k], test.out)) continue;
    if (got[k] == test.rows[k].want) continue;
    std::string inputs;
    for (u64 value : test.rows[k].in) inputs += fmt::format(" {:#x}", value);
    FAIL_CHECK(
        fmt::format("row {}:{} gave {:#x}, not {:#x}", k, inputs, got[k], test.rows[k].want));
  }
  CHECK(!got.empty());
}

}  // namespace

void check(const Case& test) {
  check(test, Stepping::together);
  check(test, Stepping::one_by_one);
}

}  // namespace ptx::opcodes
