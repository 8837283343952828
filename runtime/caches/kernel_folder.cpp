// Looks up kernels in the folders that this process was given. Knows the disk cache's files.
#include "runtime/caches/kernel_folder.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/stepfuse.hpp>

#include "ir/text/words.hpp"
#include "runtime/caches/disk_cache.hpp"
#include "runtime/caches/variant_key.hpp"
#include "runtime/files/trusted_file.hpp"
#include "runtime/process/fork_watch.hpp"

namespace stepfuse {
namespace fs = std::filesystem;
namespace {

struct Folders {
  std::mutex mutex;
  std::vector<std::string> named;  // folders of use_kernels(), newest first
};

Folders& folders() {
  static Folders all;
  return all;
}

std::vector<std::string> from_environment() {
  std::vector<std::string> out;
  const char* set = ::secure_getenv("STEPFUSE_KERNELS");
  for (std::string_view folder : split(set != nullptr ? set : "", ":")) {
    if (!folder.empty()) out.emplace_back(folder);
  }
  return out;
}

void check_folder(const std::string& folder, std::string_view from) {
  std::error_code ec;
  if (!fs::is_directory(folder, ec)) {
    throw Error(ErrorKind::usage, fmt::format("{}: '{}' is not a folder; `stepfuse aot` makes one",
                                              from, folder.substr(0, 200)));
  }
  if (is_trusted(folder)) return;
  throw Error(ErrorKind::usage,
              fmt::format("{}: '{}' holds code, and another user owns it or may write it: make it "
                          "yours or root's and chmod go-w it",
                          from, folder.substr(0, 200)));
}

}  // namespace

std::vector<std::string> kernel_folders() {
  ForkWatch watch;
  static const std::vector<std::string> environment = from_environment();
  for (const std::string& folder : environment) check_folder(folder, "STEPFUSE_KERNELS");
  std::lock_guard lock(folders().mutex);
  std::vector<std::string> all = folders().named;
  all.insert(all.end(), environment.begin(), environment.end());
  return all;
}

void use_kernels(const std::string& folder) {
  check_folder(folder, "use_kernels");
  ForkWatch watch;
  std::lock_guard lock(folders().mutex);
  folders().named.insert(folders().named.begin(), folder);
}

std::vector<std::string> shipped_targets() {
  std::set<std::string> targets;
  for (const std::string& folder : kernel_folders()) {
    std::error_code ec;
    for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
      targets.insert(it->path().filename().string());
    }
  }
  return {targets.begin(), targets.end()};
}

std::string shipped_preimage(const Variant& variant, std::string_view target,
                             std::string_view options, std::string_view kernel_text) {
  std::string whole = fmt::format("shipped {}{}{}", target, options.empty() ? "" : ", ", options);
  return disk_preimage(variant_key(variant, whole), kernel_text);
}

std::optional<std::string> find_shipped(const std::string& target, const std::string& preimage) {
  for (const std::string& folder : kernel_folders()) {
    fs::path path = fs::path(folder) / target;
    if (!is_trusted(path)) continue;
    if (auto kernel = DiskCache::load_shipped(path, preimage)) return kernel;
  }
  return std::nullopt;
}

void ship(const std::string& folder, const std::string& target, const std::string& preimage,
          const std::string& kernel) {
  fs::path path = fs::path(folder) / target;
  using fs::perms;
  constexpr perms kRead = perms::owner_read | perms::group_read | perms::others_read;
  constexpr perms kEnter = perms::owner_exec | perms::group_exec | perms::others_exec;
  std::error_code ec;
  // Set the mode whatever the umask is: everybody may read the folders, and only we may write them.
  for (const fs::path& made : {fs::path(folder), path}) {
    if (fs::create_directories(made, ec)) {
      fs::permissions(made, kRead | kEnter | perms::owner_write, ec);
    }
  }
  DiskCache files(path, ~uint64_t{0});
  files.store(preimage, kernel);
  if (DiskCache::load_shipped(path, preimage) != kernel) {
    throw Error(ErrorKind::usage, files.problem().empty()
                                      ? fmt::format("cannot write kernels to {}", path.string())
                                      : fmt::format("cannot write kernels: {}", files.problem()));
  }
  fs::permissions(files.path_of(preimage), kRead | perms::owner_write, ec);
}

std::string not_shipped(const Variant& variant, std::string_view target) {
  std::vector<std::string> all = kernel_folders();
  if (all.empty()) return "";
  return fmt::format(
      "; and {} has no kernel for this step @{} on {}: build it with `stepfuse aot` of this "
      "version, "
      "with the same options and storage types",
      fmt::join(all, " or "), variant.program.name, target);
}

}  // namespace stepfuse
