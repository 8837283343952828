// The machine's command line: runs one kernel in many interleavings and reports faults.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tools/ptx_machine/cli/parameter.hpp"
#include "tools/ptx_machine/machine.hpp"

namespace ptx::cli {
namespace {

constexpr int kClean = 0, kFault = 1, kUsage = 2;

constexpr const char* kFooter =
    R"(Parameters are given in the kernel's order. --arg is a number, of 4 or 8 bytes as the kernel says; one
with a point is a float. --buffer TYPE:COUNT is device memory, and its address the parameter; =FILL gives
it values, 'index' the element's own number. Without, nothing was written there and reading it is a fault.

Example, from the source tree:
  ptx_machine samples/ptx/block_sum.ptx --grid 2 --block 64 --buffer u32:128=index --buffer u32:2
  ptx_machine samples/ptx/block_sum_racy.ptx --grid 2 --block 64 --buffer u32:128=index --buffer u32:2

Exit code: 0, no fault; 1, a fault was found, or interleavings differ in what they leave; 2, the command,
the file or its text cannot be used.)";

struct Options {
  std::string file, kernel;
  std::vector<u32> grid, block;
  std::vector<Parameter> parameters;
  u64 interleavings = 20, seed = 0, step_limit = LaunchOptions{}.step_limit;
  u32 shared = 0;
  bool not_cooperative = false, incoherent = false;
};

Dim3 dim3(const std::vector<u32>& v) {
  return {v[0], v.size() > 1 ? v[1] : 1, v.size() > 2 ? v[2] : 1};
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in || text.empty()) throw std::invalid_argument(path + ": cannot be read, or is empty");
  return text;
}

const Kernel& kernel_of(const Module& module, const Options& o) {
  const Kernel* found = o.kernel.empty() && module.kernels().size() == 1 ? &module.kernels()[0]
                                                                         : module.find(o.kernel);
  if (found != nullptr) return *found;
  std::string names;
  for (const Kernel& k : module.kernels()) names += " " + k.name;
  throw std::invalid_argument(fmt::format(
      "{}: {}; it has{}", o.file,
      o.kernel.empty() ? "name one of its kernels with --kernel" : "no kernel " + o.kernel,
      names.empty() ? " none" : names));
}

// The buffers' contents after one interleaving.
struct Result {
  std::vector<Buffer> buffers;
  std::vector<std::vector<std::byte>> bytes;
  Counters counters;
};

Result run(const std::string& text, const Options& o, u64 seed) {
  Machine machine;
  std::unique_ptr<Module> module;
  try {
    module = machine.load(text);
  } catch (const MachineError& e) {
    throw std::invalid_argument(fmt::format("{}: {}", o.file, e.what()));
  }
  const Kernel& kernel = kernel_of(*module, o);
  Result result;
  std::vector<std::byte> params = pass(o.parameters, kernel, machine.memory(), result.buffers);
  result.counters = machine.launch(
      kernel,
      {.grid = dim3(o.grid),
       .block = dim3(o.block),
       .dynamic_shared_bytes = o.shared,
       .cooperative = !o.not_cooperative},
      params, {.seed = seed, .step_limit = o.step_limit, .checks = {}, .incoherent = o.incoherent});
  for (const Buffer& b : result.buffers) {
    result.bytes.emplace_back(b.bytes);
    machine.memory().read(result.bytes.back().data(), b.address, b.bytes);
  }
  return result;
}

int run_all(const Options& o) {
  std::string text = read_file(o.file);
  std::optional<Result> first;
  for (u64 seed = o.seed; seed < o.seed + o.interleavings; ++seed) {
    try {
      Result result = run(text, o, seed);
      if (!first) first = result;
      for (std::size_t b = 0; b < result.bytes.size(); ++b) {
        if (result.bytes[b] == first->bytes[b]) continue;
        fmt::print(
            "interleaving {}: buffer {} is another than after interleaving {}:\n  {}\n  {}\n", seed,
            b, o.seed, values_of(result.buffers[b], result.bytes[b]),
            values_of(first->buffers[b], first->bytes[b]));
        return kFault;
      }
    } catch (const MachineError& e) {
      if (e.kind() == ErrorKind::bad_launch) throw std::invalid_argument(e.what());
      fmt::print("interleaving {}: {}\n(this one alone: --seed {} --interleavings 1)\n", seed,
                 e.what(), seed);
      return kFault;
    }
  }
  for (std::size_t b = 0; b < first->buffers.size(); ++b) {
    fmt::print("buffer {}: {}\n", b, values_of(first->buffers[b], first->bytes[b]));
  }
  fmt::print("{} interleavings, {} thread-instructions each, no fault\n", o.interleavings,
             first->counters.instructions);
  return kClean;
}

int main_of(int argc, char** argv) {
  CLI::App app("Runs a kernel's PTX on the CPU and looks for races, hangs and wrong accesses.",
               "ptx_machine");
  app.footer(kFooter);
  Options o;
  std::vector<std::string> args, buffers;
  app.add_option("file", o.file, "The PTX")->required()->type_name("FILE.ptx");
  app.add_option("--kernel", o.kernel, "Which, if the file has several")->type_name("NAME");
  app.add_option("--grid", o.grid, "Blocks")
      ->required()
      ->delimiter(',')
      ->expected(1, 3)
      ->type_name("X[,Y[,Z]]");
  app.add_option("--block", o.block, "Threads of a block")
      ->required()
      ->delimiter(',')
      ->expected(1, 3)
      ->type_name("X[,Y[,Z]]");
  CLI::Option* arg = app.add_option("--arg", args, "The next parameter: a number")
                         ->allow_extra_args(false)
                         ->type_name("NUMBER");
  CLI::Option* buffer = app.add_option("--buffer", buffers, "The next parameter: memory")
                            ->allow_extra_args(false)
                            ->type_name("TYPE:COUNT[=FILL]");
  app.add_option("--interleavings", o.interleavings, "How many orders of execution [20]")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--seed", o.seed, "The first of them [0]");
  app.add_option("--step-limit", o.step_limit, "Thread-instructions until it is a hang");
  app.add_option("--shared", o.shared, "Bytes of dynamic shared memory [0]");
  app.add_flag("--not-cooperative", o.not_cooperative, "Some blocks start when others have ended");
  app.add_flag("--incoherent", o.incoherent, "Each block has a cache that nothing keeps coherent");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kClean : kUsage;
  }
  std::size_t a = 0, b = 0;
  for (const CLI::Option* given : app.parse_order()) {
    if (given == arg) o.parameters.push_back({args[a++], false});
    if (given == buffer) o.parameters.push_back({buffers[b++], true});
  }
  return run_all(o);
}

}  // namespace
}  // namespace ptx::cli

int main(int argc, char** argv) try {
  int code = ptx::cli::main_of(argc, argv);
  if (std::fflush(stdout) != 0) throw std::runtime_error("standard output cannot be written");
  return code;
} catch (const std::exception& e) {
  std::fprintf(stderr, "ptx_machine: %s\n", e.what());
  return 2;
}
