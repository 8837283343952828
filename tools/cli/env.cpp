// `stepfuse env`: lists this machine's devices and compilers, and the missing file or symbol for
// each absent one. Knows every status of the runtime.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/error.hpp>

#include "ir/text/printable.hpp"
#include "runtime/caches/disk_cache.hpp"
#include "runtime/cpu/cpu_executor.hpp"
#include "runtime/cpu/llvm_compiler.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/nvrtc.hpp"
#include "tools/cli/help.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/sass/disassembler.hpp"
#include "tools/workload/machine.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kEnvFooter = R"(Examples:
  stepfuse env
  stepfuse env --json
  STEPFUSE_NVRTC_DIR=/opt/nvrtc stepfuse env       use the NVRTC in this folder

The tool starts without any of these. Without LLVM a step runs in the interpreter (--backend=interpret,
Device::interpreter()) or on a GPU, and the CPU as a device is an error. Without NVRTC there is CUDA text but
no machine code. Without a driver there are cubins, but nothing can be launched.)";

Json processor() {
  Json j = {{"available", true}, {"name", cpu_name()}, {"threads", CpuExecutor(0).threads()}};
  if (llvm_status().available) {
    CpuTarget host = host_cpu_target();
    j["llvm_name"] = host.cpu;
    j["vector_bits"] = host.vector_bits;
  }
  j["levels"] = runnable_cpu_levels();
  return j;
}

Json llvm() {
  const LlvmStatus& s = llvm_status();
  if (!s.available) return {{"available", false}, {"problem", s.problem}};
  return {{"available", true}, {"version", s.version}, {"path", s.library}};
}

Json nvrtc() {
  const cuda::NvrtcStatus& s = cuda::nvrtc_status();
  if (!s.available) return {{"available", false}, {"problem", s.problem}};
  return {{"available", true},
          {"version", fmt::format("{}.{}", s.major, s.minor)},
          {"path", s.path},
          {"archs", s.archs}};
}

Json driver() {
  const cuda::DriverStatus& s = cuda::driver_status();
  if (!s.available) return {{"available", false}, {"problem", s.problem}};
  Json devices = Json::array();
  for (const cuda::DeviceInfo& d : s.devices) {
    devices.push_back({{"name", d.name},
                       {"arch", fmt::format("sm_{}", d.arch)},
                       {"multiprocessors", d.multiprocessors},
                       {"cooperative_launch", d.cooperative}});
  }
  return {{"available", true},
          {"cuda_version", fmt::format("{}.{}", s.version / 1000, s.version % 1000 / 10)},
          {"path", s.path},
          {"devices", devices}};
}

Json nvdisasm() {
  std::string path = sass::find_disassembler();
  if (!path.empty()) return {{"available", true}, {"path", path}};
  try {
    sass::require_disassembler();
  } catch (const Error& e) {
    return {{"available", false}, {"problem", e.what()}};
  }
  return {{"available", false}, {"problem", ""}};
}

// The stepfuse variables in force. A program with different rights than its caller reads none.
Json variables() {
  Json set = Json::object();
  for (const Variable& v : environment_variables()) {
    const char* value = ::secure_getenv(std::string(v.name).c_str());
    if (value != nullptr) set[std::string(v.name)] = value;
  }
  return set;
}

Json cache() {
  const DiskCache& c = DiskCache::process();
  if (!c.problem().empty()) return {{"available", false}, {"problem", c.problem()}};
  uint64_t bytes = 0;
  std::vector<DiskCache::Entry> entries = c.list();
  for (const DiskCache::Entry& e : entries) bytes += e.bytes;
  return {{"available", true},
          {"path", c.folder().string()},
          {"entries", entries.size()},
          {"bytes", bytes}};
}

std::string words(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return value.dump();
  std::vector<std::string> parts;
  for (const Json& v : value) parts.push_back(words(v));
  return fmt::format("{}", fmt::join(parts, " "));
}

std::string device_words(const Json& d) {
  return fmt::format("{}, {}, {} multiprocessors{}", words(d["name"]), words(d["arch"]),
                     words(d["multiprocessors"]),
                     d["cooperative_launch"].get<bool>() ? "" : ", no cooperative launch");
}

void add_part(Table& table, const std::string& name, const Json& part) {
  bool available = part["available"].get<bool>();
  table.row({name, available ? "found" : "not found"});
  for (const auto& [key, value] : part.items()) {
    if (key == "available") continue;
    if (key == "problem") {
      // One line per file that was tried.
      std::string text = words(value);
      for (size_t at = 0; at < text.size();) {
        size_t end = std::min(text.find('\n', at), text.size());
        table.row({at == 0 ? "  why" : "", text.substr(at, end - at)});
        at = end + 1;
      }
    } else if (key == "devices") {
      if (value.empty()) table.row({"  devices", "none"});
      for (const Json& d : value) table.row({"  device", device_words(d)});
    } else {
      std::string label = key == "llvm_name" ? "LLVM's name" : key;
      std::replace(label.begin(), label.end(), '_', ' ');
      table.row({"  " + label, key == "bytes" ? human_bytes(value.get<double>()) : words(value)});
    }
  }
}

int env(bool json) {
  Json all = {{"stepfuse", STEPFUSE_VERSION},
              {"processor", processor()},
              {"llvm", llvm()},
              {"nvrtc", nvrtc()},
              {"driver", driver()},
              {"nvdisasm", nvdisasm()},
              {"cache", cache()},
              {"variables", variables()}};
  if (json) {
    print_json(all);
    return kOk;
  }
  Table table;
  table.row({"stepfuse", STEPFUSE_VERSION});
  add_part(table, "processor", all["processor"]);
  add_part(table, "LLVM", all["llvm"]);
  add_part(table, "NVRTC", all["nvrtc"]);
  add_part(table, "NVIDIA driver", all["driver"]);
  add_part(table, "nvdisasm", all["nvdisasm"]);
  add_part(table, "disk cache", all["cache"]);
  bool is_first = true;
  for (const auto& [name, value] : all["variables"].items()) {
    table.row({is_first ? "variables" : "", fmt::format("{}={}", name, printable(words(value)))});
    is_first = false;
  }
  fmt::print("{}", table.text("", Table::Align::left));
  return kOk;
}

}  // namespace

void add_env(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("env", "Show what this machine has and what was not found");
  verb->footer(std::string(kEnvFooter));
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "Print JSON");
  verb->callback([&action, json] { action = [json] { return env(*json); }; });
}

}  // namespace stepfuse::cli
