// Every opcode that the machine knows, against hand-worked answers; none is left out.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/ptx_machine/opcodes/harness.hpp"
#include "tools/ptx_machine/opcode_table.hpp"

using namespace ptx;
using namespace ptx::opcodes;

namespace {

void check_all(const std::vector<Case>& cases) {
  CHECK(!cases.empty());
  for (const Case& c : cases) check(c);
}

}  // namespace

TEST_CASE("integer arithmetic") { check_all(integer_cases()); }
TEST_CASE("bits") { check_all(bit_cases()); }
TEST_CASE("floating point") { check_all(real_cases()); }
TEST_CASE("comparisons") { check_all(compare_cases()); }
TEST_CASE("conversions") { check_all(convert_cases()); }
TEST_CASE("memory") { check_all(memory_cases()); }
TEST_CASE("control") { check_all(control_cases()); }
TEST_CASE("threads together") { check_all(together_cases()); }

TEST_CASE("every row of the opcode table is tested") {
  for (auto chapter : {integer_cases, bit_cases, real_cases, compare_cases, convert_cases,
                       memory_cases, control_cases, together_cases}) {
    for (const Case& c : chapter()) run(c);
  }
  auto rows = opcode_table();
  for (std::size_t k = 0; k < rows.size(); ++k) {
    CHECK_MESSAGE(rows_seen().contains(static_cast<u16>(k)),
                  fmt::format("no case for {}.{}", rows[k].name, rows[k].modifiers));
  }
}
