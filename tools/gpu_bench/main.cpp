// The benchmark of the CUDA backend: one JSON with raw times and one table. Knows the public API and
// CLI11.
#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stepfuse/ir.hpp>

#include "runtime/cuda/context.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/nvrtc.hpp"
#include "tools/gpu_bench/bench.hpp"
#include "tools/workload/layout_file.hpp"
#include "tools/workload/text_file.hpp"

using namespace stepfuse;
using namespace stepfuse::gpu_bench;
using nlohmann::json;

namespace {

double percentile(std::vector<double> v, double p) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[static_cast<size_t>(p * static_cast<double>(v.size() - 1) + 0.5)];
}

// Sixteen tensors of equal size; at these sizes the number of tensors hardly matters.
Layout even_layout(uint64_t params) {
  Layout layout;
  for (int i = 0; i < 16; ++i) layout.add({.elements = params / 16});
  return layout;
}

json to_json(const Result& r) {
  json out = {{"case", r.what.name},
              {"params", r.params},
              {"tensors", r.what.layout.size()},
              {"grad", std::string(name(r.what.grad))},
              {"misalign", r.what.misalign},
              {"left_out", r.left_out},
              {"copy_gbs", r.copy_gbs}};
  for (const Series& s : r.series) {
    out["series"].push_back({{"name", s.name},
                             {"bytes_per_param", s.bytes_per_param},
                             {"launches", s.launches},
                             {"first_step_ms", s.first_step_ms},
                             {"from_disk_cache", s.from_disk_cache},
                             {"device_ms", s.device_ms},
                             {"host_us", s.host_us}});
  }
  return out;
}

void print(const Result& r) {
  double copy = percentile(r.copy_gbs, 0.5);
  fmt::print("\n{}: {} parameters in {} tensors, {} gradients; copy {:.0f} GB/s\n", r.what.name,
             r.params, r.what.layout.size(), name(r.what.grad), copy);
  fmt::print("  {:<28}{:>10}{:>10}{:>9}{:>9}{:>12}{:>9}{:>12}\n", "", "median ms", "min", "GB/s",
             "of copy", "host us p50", "p99", "first ms");
  for (const Series& s : r.series) {
    double ms = percentile(s.device_ms, 0.5);
    double gbs = s.bytes_per_param * static_cast<double>(r.params) / (ms * 1e6);
    fmt::print("  {:<28}{:>10.4f}{:>10.4f}{:>9.0f}{:>8.0f}%{:>12.1f}{:>9.1f}{:>12.1f}\n", s.name,
               ms, percentile(s.device_ms, 0), gbs, 100 * gbs / copy, percentile(s.host_us, 0.5),
               percentile(s.host_us, 0.99), s.first_step_ms);
  }
  for (const std::string& why : r.left_out) fmt::print("  left out: {}\n", why);
}

std::vector<Case> make_cases(const std::vector<uint64_t>& params,
                             const std::vector<std::string>& layouts,
                             const std::vector<std::string>& grads, size_t misalign) {
  std::vector<Case> cases;
  for (const std::string& g : grads) {
    DType grad = dtype_from_name(g).value();
    for (uint64_t n : params) {
      cases.push_back({fmt::format("{}M {}", n >> 20, g), even_layout(n), grad, misalign});
    }
    for (const std::string& path : layouts) {
      LayoutFile file = read_layout_file(path);
      Layout layout;
      for (const auto& t : file.tensors) layout.add({.name = t.name, .elements = t.size});
      cases.push_back({fmt::format("{} {}", file.name, g), std::move(layout), grad, misalign});
    }
  }
  return cases;
}

int run(int argc, char** argv) {
  CLI::App app("Times fused, split and unfused steps on a CUDA device, in turns with a copy");
  Settings settings;
  std::vector<uint64_t> params = {1 << 20, 16 << 20, 256 << 20};
  std::vector<std::string> layouts, grads = {"f32", "bf16"};
  size_t misalign = 0;
  std::string out;
  app.add_option("--params", params, "numbers of parameters");
  app.add_option("--layout", layouts, "layout files");
  app.add_option("--grad", grads, names(kFloatStorage, ", "))->check([](const std::string& text) {
    auto t = dtype_from_name(text);
    bool known = t && kFloatStorage.contains(*t);
    return known ? "" : "not one of " + names(kFloatStorage, ", ");
  });
  app.add_option("--misalign", misalign, "elements that gradients are off an aligned address");
  app.add_option("--rounds", settings.rounds, "turns that count");
  app.add_option("--steps", settings.steps_per_turn, "steps of a turn");
  app.add_option("--copy-mb", "size of the copy")->each([&](const std::string& mb) {
    settings.copy_bytes = std::stoull(mb) << 20;
  });
  app.add_option("--device", settings.ordinal, "ordinal");
  app.add_option("--cuda-options", settings.sweep,
                 "options of the emitter to time the fused step with, too, as in "
                 "unroll=2,cache=streaming; several");
  app.add_option("--json", out, "file for the raw times");
  CLI11_PARSE(app, argc, argv);

  const cuda::DriverStatus& driver = cuda::driver_status();
  if (!driver.available) throw Error(ErrorKind::device, "no CUDA driver: " + driver.problem);
  std::string command;
  for (int i = 0; i < argc; ++i) command += fmt::format("{}{}", i == 0 ? "" : " ", argv[i]);
  const cuda::NvrtcStatus& nvrtc = cuda::nvrtc_status();
  json report = {
      {"device", driver.devices.at(static_cast<size_t>(settings.ordinal)).name},
      {"multiprocessors", driver.devices.at(static_cast<size_t>(settings.ordinal)).multiprocessors},
      {"driver", driver.version},
      {"nvrtc", fmt::format("{}.{}", nvrtc.major, nvrtc.minor)},
      {"command", command},
      {"cases", json::array()}};
  for (const Case& c : make_cases(params, layouts, grads, misalign)) {
    cuda::Context context(settings.ordinal);
    cuda::Context::Scope scope(context);
    size_t free = 0, total = 0;
    cuda::check(cuda::driver().cuMemGetInfo(&free, &total), "cuMemGetInfo");
    if (bytes_needed(c, settings) > free) {
      fmt::print("\n{}: left out, needs {} of {} free bytes\n", c.name, bytes_needed(c, settings),
                 free);
      continue;
    }
    Result r = run_case(c, settings);
    print(r);
    std::fflush(stdout);
    report["cases"].push_back(to_json(r));
    if (!out.empty()) write_file(out, report.dump(1) + "\n");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "stepfuse_gpu_bench: {}\n", e.what());
    return 1;
  }
}
