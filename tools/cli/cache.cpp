// `stepfuse cache`: the compiled variants on disk. Knows the disk cache.
#include <memory>

#include <CLI/Option.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "runtime/disk_cache.hpp"
#include "tools/cli/source.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/verbs.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kFooter = R"(Examples:
  stepfuse cache path
  stepfuse cache list
  stepfuse cache show 3f9a        what a kernel was compiled from, by the beginning of its name
  stepfuse cache clear

The cache also remembers which NVRTC, LLVM and processor were found. So a process whose kernels are in the
cache opens no compiler. STEPFUSE_CACHE_DIR names another folder; STEPFUSE_CACHE=off (or 0) turns the
cache off.)";

DiskCache& working_cache() {
  DiskCache& cache = DiskCache::process();
  if (!cache.problem().empty()) {
    throw Error(ErrorKind::device, fmt::format("the kernel cache is off: {}", cache.problem()));
  }
  return cache;
}

int list(const DiskCache& cache) {
  Table table;
  uint64_t bytes = 0;
  std::vector<DiskCache::Entry> entries = cache.list();
  for (const DiskCache::Entry& e : entries) {
    auto when =
        std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::file_clock::to_sys(e.used));
    table.row({e.name, human_bytes(static_cast<double>(e.bytes)),
               fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(when))});
    bytes += e.bytes;
  }
  fmt::print("{}{} entries, {}, in {}\n", table.text(), entries.size(),
             human_bytes(static_cast<double>(bytes)), cache.folder().string());
  return kOk;
}

int show(const DiskCache& cache, const std::string& name) {
  auto preimage = cache.show(name);
  if (!preimage) {
    throw Error(ErrorKind::usage,
                fmt::format("'{}' is not the beginning of exactly one kernel's name; see "
                            "`stepfuse cache list`",
                            name));
  }
  fmt::print("{}{}", *preimage, preimage->ends_with('\n') ? "" : "\n");
  return kOk;
}

int cache(const std::string& what, const std::string& name) {
  if (what == "show" && name.empty()) {
    throw Error(ErrorKind::usage,
                "cache show needs the name of a kernel; see `stepfuse cache list`");
  }
  DiskCache& cache = working_cache();
  if (what == "list") return list(cache);
  if (what == "show") return show(cache, name);
  if (what == "clear") {
    fmt::print("{} entries removed\n", cache.clear());
  } else {
    fmt::print("{}\n", cache.folder().string());
  }
  return kOk;
}

}  // namespace

void add_cache(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("cache", "Inspect or clear the kernel cache");
  verb->footer(std::string(kFooter));
  auto what = std::make_shared<std::string>();
  auto name = std::make_shared<std::string>();
  verb->add_option("what", *what, "What to do")
      ->required()
      ->type_name("path|list|show|clear")
      ->check(one_of({"path", "list", "show", "clear"}));
  verb->add_option("name", *name, "Name of the kernel to show, or its beginning")
      ->type_name("NAME");
  verb->callback([&action, what, name] { action = [what, name] { return cache(*what, *name); }; });
}

}  // namespace stepfuse::cli
