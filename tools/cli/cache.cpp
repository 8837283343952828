// `stepfuse cache`: the cache of compiled variants on disk. Knows the disk cache.
#include <memory>

#include <CLI/Option.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "runtime/caches/disk_cache.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/source.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/verbs.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kCacheFooter = R"(Examples:
  stepfuse cache path
  stepfuse cache list
  stepfuse cache show 3f9a        what a kernel was compiled from, by the beginning of its name
  stepfuse cache clear

The cache also remembers which NVRTC, LLVM and processor were found. So a process whose kernels are in the
cache opens no compiler. STEPFUSE_CACHE_DIR names a different folder; STEPFUSE_CACHE=off (or 0) turns the
cache off.)";

DiskCache& working_cache() {
  DiskCache& cache = DiskCache::process();
  if (!cache.problem().empty()) {
    throw Error(ErrorKind::device, fmt::format("the kernel cache is off: {}", cache.problem()));
  }
  return cache;
}

int list(const DiskCache& cache, bool json) {
  Table table;
  uint64_t bytes = 0;
  Json rows = Json::array();
  std::vector<DiskCache::Entry> entries = cache.list();
  for (const DiskCache::Entry& e : entries) {
    auto when =
        std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::file_clock::to_sys(e.used));
    table.row({e.name, human_bytes(static_cast<double>(e.bytes)),
               fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(when))});
    rows.push_back({{"name", e.name},
                    {"bytes", e.bytes},
                    {"used", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(when))}});
    bytes += e.bytes;
  }
  if (json) {
    print_json({{"folder", cache.folder().string()}, {"entries", rows}});
    return kOk;
  }
  fmt::print("{}{} entries, {}, in {}\n", table.text(), entries.size(),
             human_bytes(static_cast<double>(bytes)), cache.folder().string());
  return kOk;
}

int show(const DiskCache& cache, const std::string& name, bool json) {
  auto preimage = cache.show(name);
  if (!preimage) {
    throw Error(ErrorKind::usage,
                fmt::format("'{}' is not the beginning of exactly one kernel's name; see "
                            "`stepfuse cache list`",
                            name));
  }
  if (json) {
    print_json({{"name", name}, {"compiled_from", *preimage}});
  } else {
    fmt::print("{}{}", *preimage, preimage->ends_with('\n') ? "" : "\n");
  }
  return kOk;
}

struct CacheArguments {
  std::string what;
  std::string name;
  bool json = false;
};

int cache(const CacheArguments& o) {
  if (o.what == "show" && o.name.empty()) {
    throw Error(ErrorKind::usage,
                "cache show needs the name of a kernel; see `stepfuse cache list`");
  }
  if (o.what != "show" && !o.name.empty()) {
    throw Error(
        ErrorKind::usage,
        fmt::format("cache {}: only `stepfuse cache show` takes a name; got '{}'", o.what, o.name));
  }
  DiskCache& cache = working_cache();
  if (o.what == "list") return list(cache, o.json);
  if (o.what == "show") return show(cache, o.name, o.json);
  if (o.what == "path") {
    std::string folder = cache.folder().string();
    if (o.json) {
      print_json({{"folder", folder}});
    } else {
      fmt::print("{}\n", folder);
    }
    return kOk;
  }
  size_t removed = cache.clear();
  if (o.json) {
    print_json({{"removed", removed}});
  } else {
    fmt::print("{} entries removed\n", removed);
  }
  return kOk;
}

}  // namespace

void add_cache(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("cache", "Inspect or clear the kernel cache");
  verb->footer(std::string(kCacheFooter));
  auto o = std::make_shared<CacheArguments>();
  verb->add_option("what", o->what, "What to do")
      ->required()
      ->type_name("path|list|show|clear")
      ->check(one_of({"path", "list", "show", "clear"}));
  verb->add_option("name", o->name, "Name of the kernel to show, or its beginning")
      ->type_name("NAME");
  verb->add_flag("--json", o->json, "Print JSON");
  verb->callback([&action, o] { action = [o] { return cache(*o); }; });
}

}  // namespace stepfuse::cli
