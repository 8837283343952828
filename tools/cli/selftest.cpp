// `stepfuse selftest`: tells in seconds whether steps compile here and give the interpreter's bits.
// Knows the workload and the runtime's statuses.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <stepfuse/recipes.hpp>

#include "runtime/cpu/llvm_compiler.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/nvrtc.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/terminal.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/workload/machine.hpp"
#include "tools/workload/runner.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kSelftestFooter = R"(Examples:
  stepfuse selftest
  stepfuse selftest && ./train           in a container's health check or before a job

Compiles a few steps for every device of this machine, in every form, runs them over awkward inputs (NaN, infinities,
subnormals, tensors without elements), and compares each bit with the interpreter. Exit code 0: all equal; 3: no
device works, or bits differ. Missing components are listed, but are not failures.)";

struct Case {
  std::string_view name;
  Program program;
};

std::vector<Case> cases() {
  return {{"f32", make_recipe("adamw", {.loss_scale = LossScale::dynamic, .clip = Clip::l2})},
          {"f16 with masters", make_recipe("adamw", {.grad = DType::f16,
                                                     .master = true,
                                                     .loss_scale = LossScale::dynamic,
                                                     .clip = Clip::l2,
                                                     .zero_grad = true})},
          {"bf16 moments",
           make_recipe("lion", {.grad = DType::bf16, .moments = DType::bf16, .check = true})}};
}

// Tensors of a few pieces, a few elements and no elements, some of them misaligned.
LayoutFile layout() {
  return {.name = "selftest",
          .source = "",
          .tensors = {{.name = "pieces", .size = 40'000, .group = 0},
                      {.name = "few", .size = 37, .group = 1, .misalign = 3},
                      {.name = "none", .size = 0, .group = 1},
                      {.name = "one", .size = 1, .group = 0},
                      {.name = "rows", .size = 5 * 2048 + 1, .group = 1, .misalign = 1}}};
}

std::string digest(const Case& c, const Device& device, Form form) {
  RunPlan plan{.device = device, .form = form, .steps = 4};
  plan.inputs.inputs = Inputs::special;
  plan.vary_args = true;
  return run_workload(c.program, layout(), {}, plan).digest;
}

class SelfTest {
 public:
  int run(bool json) {
    std::vector<Case> all = cases();
    for (const Case& c : all) expected_.push_back(digest(c, Device::interpreter(), Form::fused));
    add("interpreter", "works", fmt::format("{} steps", all.size()));
    if (llvm_status().available) {
      for (const std::string& level : runnable_cpu_levels()) {
        compare(fmt::format("CPU, {}", level), all, Device::cpu(0, level));
      }
    } else {
      add("CPU", "not here", first_line(llvm_status().problem));
    }
    cuda_devices(all);
    bool ok = problem_.empty() && working_ > 0;
    if (json) {
      print_json({{"ok", ok}, {"devices", devices_}, {"problem", problem_}});
      return ok ? kOk : kMachine;
    }
    Table table;
    for (const Json& d : devices_) {
      table.row({d["device"].get<std::string>(), d["result"].get<std::string>(),
                 d["detail"].get<std::string>()});
    }
    fmt::print("{}\n", table.text("", Table::Align::left));
    if (!problem_.empty()) {
      fmt::print("FAILED: {}\n", problem_);
    } else if (working_ == 0) {
      fmt::print("FAILED: no device works here: `stepfuse env` says what was looked for\n");
    } else {
      fmt::print("ok: {} gives the interpreter's bits in every form\n",
                 working_ == 1 ? "one device" : "each device");
    }
    return ok ? kOk : kMachine;
  }

 private:
  void add(const std::string& device, const std::string& result, const std::string& detail) {
    devices_.push_back({{"device", device}, {"result", result}, {"detail", detail}});
  }

  void cuda_devices(const std::vector<Case>& all) {
    const cuda::DriverStatus& driver = cuda::driver_status();
    if (!driver.available || driver.devices.empty()) {
      std::string why = driver.available ? "the driver has no device" : first_line(driver.problem);
      add("CUDA", "not here", why);
      return;
    }
    if (!cuda::nvrtc_status().available) {
      add("CUDA", "not here", first_line(cuda::nvrtc_status().problem));
      return;
    }
    for (size_t d = 0; d < driver.devices.size(); ++d) {
      const cuda::DeviceInfo& info = driver.devices[d];
      compare(fmt::format("CUDA {}, {}, sm_{}", d, info.name, info.arch), all,
              Device::cuda(static_cast<int>(d)));
    }
  }

  void compare(const std::string& name, const std::vector<Case>& all, const Device& device) {
    auto start = std::chrono::steady_clock::now();
    for (size_t k = 0; k < all.size(); ++k) {
      for (Form form : {Form::fused, Form::split, Form::unfused}) {
        try {
          if (digest(all[k], device, form) == expected_[k]) continue;
          fail(name, fmt::format("{}, form {}: the bits differ from the interpreter's", all[k].name,
                                 stepfuse::name(form)));
        } catch (const Error& e) {
          fail(name, fmt::format("{}, form {}: {}", all[k].name, stepfuse::name(form), e.what()));
        }
        return;
      }
    }
    ++working_;
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    add(name, "bit-identical", fmt::format("{} kernels in {:.2g} s", 3 * all.size(), seconds));
  }

  void fail(const std::string& name, const std::string& why) {
    add(name, "FAILED", first_line(why));
    if (problem_.empty()) problem_ = fmt::format("{}: {}", name, why);
  }

  static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

  std::vector<std::string> expected_;
  Json devices_ = Json::array();
  int working_ = 0;
  std::string problem_;
};

}  // namespace

void add_selftest(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("selftest", "Check that steps have the right bits on this machine");
  verb->footer(std::string(kSelftestFooter));
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "Print JSON");
  verb->callback([&action, json] { action = [json] { return SelfTest().run(*json); }; });
}

}  // namespace stepfuse::cli
