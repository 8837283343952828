// The real kernels of random programs, executed: the interpreter's bits in every form, on every
// arch, for every grid and interleaving.
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/printer.hpp>

#include "compiler/cuda/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "ir/semantics/interpreter.hpp"
#include "tests/ptx/device_runner.hpp"
#include "tests/support/check.hpp"
#include "tests/support/elementary_program.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tests/support/rng.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

std::vector<size_t> shifts_of(const TestLayout& layout) {
  std::vector<size_t> shifts;
  for (const LayoutTensor& t : layout.tensors) shifts.push_back(t.shift);
  return shifts;
}

struct Progress {
  int executed = 0;
  uint64_t instructions = 0;
};

// One form, arch, grid and seed of the case, chosen by its seed.
std::string check_on_machine(const Case& c, Progress& progress) {
  TestData expected = c.data();
  TestData actual(expected);
  interpret(c.program, expected.step());
  Rng rng(c.seed, "device");
  Form form = rng.pick<Form>({Form::fused, Form::split, Form::unfused});
  int arch = rng.pick<int>({75, 80, 90, 100, 120});
  DeviceRun options{.blocks = rng.pick<uint32_t>({1, 2, 3, 7}),
                    .seed = c.seed,
                    .inline_args = rng.chance(50),
                    .shifts = shifts_of(c.layout)};
  options.split = rng.pick<uint32_t>({0, 1, 3, 4});
  std::string where = fmt::format("{}, sm_{}, {} blocks", name(form), arch, options.blocks);
  try {
    Variant variant =
        make_variant(optimize(c.program, c.layout.signatures), c.layout.signatures, form);
    std::string text = emit_cuda(variant.plan);
    DeviceRunner runner(std::move(variant), text, arch);
    progress.instructions += runner.run(actual.step(), options).instructions;
    ++progress.executed;
  } catch (const Error& e) {
    return where + ": " + e.what();
  } catch (const ptx::MachineError& e) {
    return where + ": " + e.what();
  }
  Fault fault = difference(c.program, expected, actual);
  return fault ? where + ": " + *fault : "";
}

}  // namespace

TEST_CASE("random programs: executed PTX gives the interpreter's bits") {
  STEPFUSE_NEEDS_NVRTC();
  uint64_t first = 4000;
  uint64_t count = 60;
  if (const char* text = std::getenv("STEPFUSE_SEEDS")) {
    char* end = nullptr;
    first = std::strtoull(text, &end, 10);
    count = *end == ':' ? std::strtoull(end + 1, nullptr, 10) : 1;
  }
  Progress progress;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Case c = random_case(seed);
    std::string fault = check_on_machine(c, progress);
    if (!fault.empty()) FAIL_CHECK("seed ", seed, ": ", fault, "\n", print(c.program));
  }
  CHECK(progress.executed > 0);
  MESSAGE(fmt::format("{} programs executed, {} M thread-instructions", progress.executed,
                      progress.instructions / 1000000));
}

TEST_CASE("exp, log, tanh and % in executed PTX give the interpreter's bits") {
  STEPFUSE_NEEDS_NVRTC();
  Progress progress;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Case c(elementary_program(), seed);
    c.inputs = seed % 2 == 0 ? Inputs::special : Inputs::normal;
    CHECK(check_on_machine(c, progress) == "");
  }
  CHECK(progress.executed == 4);
}
