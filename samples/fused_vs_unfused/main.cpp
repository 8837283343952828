// Shows what fusing the whole step gains on this machine, compared with the speed of its memory. Knows the benchmark
// and the command line.
#include <cstdio>
#include <fstream>
#include <string>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stepfuse/stepfuse.hpp>

#include "samples/fused_vs_unfused/bench.hpp"

using namespace stepfuse;
using namespace stepfuse::samples;

namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

double gigabytes_per_second(uint64_t bytes, const Times& t) {
  return static_cast<double>(bytes) / t.median / 1e9;
}

void print_json(const BenchResult& r) {
  auto times = [](const Times& t) {
    return nlohmann::ordered_json{{"min", t.min}, {"median", t.median}, {"max", t.max}};
  };
  nlohmann::ordered_json out = {
      {"params", r.params},
      {"fused_s", times(r.fused)},
      {"split_s", times(r.split)},
      {"unfused_s", times(r.unfused)},
      {"fused_bytes", r.fused_bytes},
      {"unfused_bytes", r.unfused_bytes},
      {"stream_gbs", gigabytes_per_second(r.stream_bytes, r.stream)},
      {"triad_gbs", gigabytes_per_second(r.triad_bytes, r.triad)},
      {"threads", r.threads},
      {"cpu", processor_name()},
      {"max_abs_diff", r.max_abs_diff},
  };
  fmt::print("{}\n", out.dump(2));
}

void print_table(const BenchResult& r) {
  double stream = gigabytes_per_second(r.stream_bytes, r.stream);
  fmt::print("{} parameters, {} threads, {}\n\n", r.params, r.threads, processor_name());
  fmt::print("{:<10}{:>12}{:>12}{:>12}{:>9}{:>9}{:>11}{:>9}\n", "", "min ms", "median ms", "max ms",
             "bytes/p", "GB/s", "of stream", "x fused");
  auto row = [&](std::string_view name, const Times& t, uint64_t bytes, bool is_step) {
    double speed = gigabytes_per_second(bytes, t);
    fmt::print("{:<10}{:>12.4f}{:>12.4f}{:>12.4f}{:>9.0f}{:>9.1f}", name, t.min * 1e3,
               t.median * 1e3, t.max * 1e3,
               static_cast<double>(bytes) / static_cast<double>(r.params), speed);
    if (is_step) fmt::print("{:>11.2f}{:>9.2f}", speed / stream, t.median / r.fused.median);
    fmt::print("\n");
  };
  row("fused", r.fused, r.fused_bytes, true);
  row("split", r.split, r.fused_bytes, true);
  row("unfused", r.unfused, r.unfused_bytes, true);
  row("stream", r.stream, r.stream_bytes, false);
  row("triad", r.triad, r.triad_bytes, false);
  fmt::print("\nlargest difference between the forms' weights: {}\n", r.max_abs_diff);
  fmt::print("stream reads four arrays and writes three of them in place; triad is STREAM's.\n");
}

void show_progress(double done, std::string_view what) {
  if (isatty(STDERR_FILENO) == 0) return;
  fmt::print(stderr, "\r{:3.0f}% {:<12}{}", done * 100, what,
             done >= 1 ? "\r                 \r" : "");
  std::fflush(stderr);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Times AdamW with loss scaling and clipping fused, split and unfused, in turns with "
      "streams of the same shape.");
  uint64_t params = uint64_t{16} << 20;
  std::string layout;
  BenchOptions options;
  bool json = false;
  auto* by_count = app.add_option("--params", params, "parameters, in one tensor")
                       ->capture_default_str()
                       ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 36));
  app.add_option("--layout", layout, "JSON file with the tensors' shapes (samples/layouts/)")
      ->excludes(by_count);
  app.add_option("--threads", options.threads, "0: all")->check(CLI::Range(0, 4096));
  app.add_option("--rounds", options.rounds, "turns that count")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_flag("--json", json, "print one JSON object");
  CLI11_PARSE(app, argc, argv);
  try {
    options.layout = layout.empty() ? single_tensor(params) : read_layout_file(layout);
    BenchResult result = run_bench(options, show_progress);
    if (json)
      print_json(result);
    else
      print_table(result);
  } catch (const Error& e) {
    fmt::print(stderr, "fused_vs_unfused: {}\n", e.what());
    return 1;
  }
  return 0;
}
