// Compiled CPU kernels against the interpreter. Knows all layers.
#include <set>

#include <fmt/format.h>

#include "compiler/passes/pass_manager.hpp"
#include "ir/semantics/interpreter.hpp"
#include "runtime/cpu/cpu_executor.hpp"
#include "tests/support/check.hpp"
#include "tests/support/kernel_runner.hpp"

namespace stepfuse::testing {
Fault check_cpu(const Case& c, const CpuCheckOptions& options) {
  TestData expected = c.data();
  TestData before(expected);
  interpret(c.program, expected.step());
  Program program = optimize(c.program, c.layout.signatures);
  CpuTarget target = cpu_target(options.level);
  CpuCount nobody_asks;
  CpuCount& count = options.count != nullptr ? *options.count : nobody_asks;
  std::set<std::string> done;  // fused and split have one text
  for (Form form : options.forms) {
    Variant variant = make_variant(program, c.layout.signatures, form);
    std::string text = emit_llvm(variant.plan, target);
    if (!done.insert(text).second) continue;
    ++count.kernels;
    KernelRunner runner(std::move(variant), std::move(text), target, options.code);
    for (int threads : {1, 2}) {
      thread_local CpuExecutor executors[] = {CpuExecutor(1), CpuExecutor(2)};
      ++count.runs;
      TestData actual(before);
      runner.run(actual.step(), executors[threads - 1]);
      if (Fault f = difference(c.program, expected, actual)) {
        return fmt::format("CPU kernel, {} form, {} threads: {}", name(form), threads, *f);
      }
    }
  }
  ++count.programs;
  return std::nullopt;
}

}  // namespace stepfuse::testing
