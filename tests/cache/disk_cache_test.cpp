// The disk cache with damage, foreign owners, full and read-only folders, threads and processes:
// never a wrong payload, never a crash.
#include "runtime/caches/disk_cache.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/error.hpp>

#include "runtime/files/new_file.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "stepfuse-cache-XXXXXX").string();
    path = ::mkdtemp(name.data());
    path /= "cache";
  }
  ~Folder() {
    std::error_code ec;
    fs::permissions(path, fs::perms::owner_all, ec);
    fs::remove_all(path.parent_path(), ec);
  }
  fs::path only_file() const {
    for (const auto& e : fs::directory_iterator(path)) return e.path();
    return {};
  }
};

std::string read(const fs::path& p) {
  std::ifstream in(p, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write(const fs::path& p, const std::string& text) {
  std::ofstream(p, std::ios::binary | std::ios::trunc) << text;
}

// Different bytes for every key and size, so that a mix-up or a torn write is detected.
std::string payload_of(const std::string& key, size_t bytes) {
  std::string s;
  while (s.size() < bytes) s += key + std::to_string(s.size());
  s.resize(bytes);
  return s;
}

}  // namespace

TEST_CASE("what was stored comes back, in this and another cache object") {
  Folder f;
  DiskCache cache(f.path);
  REQUIRE(cache.problem().empty());
  CHECK(!cache.load("key"));
  cache.store("key", "payload");
  CHECK(cache.load("key") == "payload");
  CHECK(DiskCache(f.path).load("key") == "payload");
  CHECK(!cache.load("other"));
  CHECK(cache.list().size() == 1);
  CHECK(cache.show(cache.list()[0].name.substr(0, 8)) == "key");
  CHECK(cache.clear() == 1);
  CHECK(!cache.load("key"));
}

TEST_CASE("every truncation and every flipped bit is a miss, and the entry is gone") {
  Folder f;
  DiskCache cache(f.path);
  cache.store("key", payload_of("key", 40));
  fs::path file = f.only_file();
  std::string good = read(file);
  for (size_t n = 0; n < good.size(); ++n) {
    write(file, good.substr(0, n));
    CHECK(!cache.load("key"));
    CHECK(!fs::exists(file));
  }
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    write(file, bad);
    CHECK(!cache.load("key"));
  }
  write(file, good + "x");
  CHECK(!cache.load("key"));
  write(file, good);
  CHECK(cache.load("key") == payload_of("key", 40));
}

TEST_CASE("an entry under another's name is not served") {
  Folder f;
  DiskCache cache(f.path);
  cache.store("a", "payload of a");
  fs::path a = f.only_file();
  std::string bytes = read(a);
  cache.clear();
  cache.store("b", "payload of b");
  write(f.only_file(), bytes);
  CHECK(!cache.load("b"));
}

TEST_CASE("folders and files that others may write are refused") {
  Folder f;
  fs::create_directories(f.path);
  fs::permissions(f.path, fs::perms::all);
  CHECK(DiskCache(f.path).problem().find("chmod 700") != std::string::npos);
  fs::permissions(f.path, fs::perms::owner_all);
  DiskCache cache(f.path);
  cache.store("key", "payload");
  CHECK(cache.load("key") == "payload");
  for (fs::perms other : {fs::perms::others_write, fs::perms::group_write}) {
    fs::permissions(f.path, fs::perms::owner_all | other);
    CHECK(DiskCache(f.path).problem().find("chmod 700") != std::string::npos);
    fs::permissions(f.path, fs::perms::owner_all);
    fs::permissions(f.only_file(), fs::perms::owner_all | other);
    CHECK(!cache.load("key"));
  }
  fs::path target = f.path.parent_path() / "elsewhere";
  fs::permissions(f.only_file(), fs::perms::owner_all);
  fs::path file = f.only_file();
  fs::rename(file, target);
  fs::create_symlink(target, file);
  CHECK(!cache.load("key"));
}

TEST_CASE("a foreign owner's folder is refused") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can give a folder to somebody else");
    return;
  }
  Folder f;
  fs::create_directories(f.path);
  REQUIRE(::chown(f.path.c_str(), 12345, 12345) == 0);
  DiskCache cache(f.path);
  CHECK(!cache.problem().empty());
  cache.store("key", "payload");
  CHECK(!cache.load("key"));
}

TEST_CASE("a folder that cannot be written, or is not a folder, only misses") {
  Folder f;
  fs::create_directories(f.path.parent_path());
  write(f.path, "a file");
  DiskCache not_a_folder(f.path);
  CHECK(!not_a_folder.problem().empty());
  not_a_folder.store("key", "payload");
  CHECK(!not_a_folder.load("key"));
  DiskCache proc("/proc/stepfuse-cannot-be");
  CHECK(!proc.problem().empty());
  DiskCache full("/dev/full/x");
  CHECK(!full.problem().empty());
}

TEST_CASE("a full disk loses nothing but the entry") {
  Folder f;
  DiskCache cache(f.path);
  cache.store("old", "payload");
  pid_t child = ::fork();
  if (child == 0) {
    struct rlimit limit{};
    ::signal(SIGXFSZ, SIG_IGN);
    limit.rlim_cur = limit.rlim_max = 4096;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    cache.store("big", std::string(100000, 'x'));
    ::_exit(cache.load("big") || cache.load("old") != "payload" ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(cache.list().size() == 1);
}

TEST_CASE("8 threads and 8 processes on one key") {
  Folder f;
  std::string want = payload_of("key", 200000);
  auto work = [&] {
    DiskCache cache(f.path);
    for (int i = 0; i < 30; ++i) {
      auto got = cache.load("key");
      if (got && *got != want) return false;
      cache.store("key", want);
    }
    return true;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    pid_t child = ::fork();
    if (child == 0) ::_exit(work() ? 0 : 1);
    children.push_back(child);
  }
  std::atomic<int> good{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back([&] { good += work() ? 1 : 0; });
  }
  CHECK(good == 8);
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(DiskCache(f.path).load("key") == want);
}

TEST_CASE("writers killed in mid-write, 200 times") {
  Folder f;
  DiskCache cache(f.path);
  std::string want = payload_of("key", 3000000);
  for (int i = 0; i < 200; ++i) {
    pid_t child = ::fork();
    if (child == 0) {
      for (;;) cache.store("key", want);
    }
    ::usleep(static_cast<useconds_t>(100 + 37 * i));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    auto got = cache.load("key");
    CHECK((!got || *got == want));
  }
  cache.store("key", want);
  CHECK(cache.load("key") == want);
}

TEST_CASE("the oldest entries go first") {
  Folder f;
  DiskCache cache(f.path, 10000);
  for (int i = 0; i < 30; ++i) cache.store("key" + std::to_string(i), std::string(1000, 'x'));
  uint64_t total = 0;
  for (const auto& e : cache.list()) total += e.bytes;
  CHECK(total <= 10000);
  CHECK(cache.load("key29"));
  CHECK(!cache.load("key0"));
}

TEST_CASE("a pipe, a device or a folder under an entry's name is a miss, and waits for nobody") {
  Folder f;
  DiskCache cache(f.path);
  cache.store("key", "payload");
  fs::path file = f.only_file();
  fs::remove(file);
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    ::_exit(cache.load("key") || cache.show("") || cache.clear() != 0 ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(fs::is_fifo(file));
  fs::remove(file);
  fs::create_directory(file);
  CHECK(!cache.load("key"));
  CHECK(cache.clear() == 0);
  CHECK(fs::exists(file));
}

TEST_CASE("an entry that claims a terabyte is a miss, without the memory for it") {
  Folder f;
  DiskCache cache(f.path);
  cache.store("key", "payload");
  fs::path file = f.only_file();
  uint64_t size = uint64_t{1} << 40;
  std::string header = read(file).substr(0, 48);
  uint64_t payload = size - header.size() - 3;
  std::memcpy(header.data() + 24, &payload, sizeof payload);
  write(file, header);
  if (::truncate(file.c_str(), static_cast<off_t>(size)) != 0) {
    MESSAGE("skipped: this file system has no sparse files of a terabyte");
    return;
  }
  CHECK(!cache.load("key"));
  CHECK(!fs::exists(file));
}

TEST_CASE("what is not ours to the letter stays") {
  Folder f;
  DiskCache cache(f.path, 3000);
  std::string digits(32, 'a');
  std::string entry = digits + ".variant";
  std::vector<std::string> others = {"mine.variant",
                                     digits + "0.variant",
                                     digits + ".old.variant",
                                     digits.substr(1) + ".variant",
                                     digits.substr(1) + "g.variant",
                                     digits.substr(1) + "A.variant",
                                     "download.partial",
                                     entry + ".1.2.partial",
                                     "stepfuse.partial",
                                     "stepfuse.1.partial",
                                     "stepfuse.1.x.partial",
                                     "stepfuse.01.2.partial",
                                     "stepfuse..1.partial",
                                     "stepfuse.1.2.partial.",
                                     "stepfuse.1.2.partial.bak"};
  auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(48);
  for (const std::string& name : others) {
    write(f.path / name, std::string(5000, 'x'));
    fs::last_write_time(f.path / name, long_ago);
  }
  for (int i = 0; i < 5; ++i) cache.store("key" + std::to_string(i), std::string(1000, 'x'));
  CHECK(cache.list().size() == 2);
  CHECK(cache.clear() == 2);
  for (const std::string& name : others) CHECK_MESSAGE(fs::exists(f.path / name), name);
}

TEST_CASE("the remains of killed writers go after an hour, and with clear()") {
  Folder f;
  DiskCache cache(f.path);
  fs::path old = f.path / "stepfuse.17.3.partial";
  fs::path young = f.path / "stepfuse.18.0.partial";
  write(old, "x");
  write(young, "x");
  auto now = fs::file_time_type::clock::now();
  fs::last_write_time(old, now - std::chrono::minutes(70));
  fs::last_write_time(young, now - std::chrono::minutes(50));
  cache.store("key", "payload");
  CHECK(!fs::exists(old));
  CHECK(fs::exists(young));
  CHECK(cache.clear() == 1);
  CHECK(!fs::exists(young));
}

TEST_CASE("a full cache goes down to nine tenths") {
  Folder f;
  DiskCache cache(f.path, 100000);
  auto total = [&] {
    uint64_t bytes = 0;
    for (const auto& e : cache.list()) bytes += e.bytes;
    return bytes;
  };
  // 1000 bytes each, including header and key.
  auto name = [](int i) { return "key" + std::to_string(100 + i); };
  for (int i = 0; i < 100; ++i) cache.store(name(i), std::string(1000 - 48 - 6, 'x'));
  CHECK(total() == 100000);
  cache.store(name(100), std::string(1000 - 48 - 6, 'x'));
  CHECK(total() == 90000);
}

TEST_CASE("eviction goes by the time of the last use, which a day is exact enough for") {
  Folder f;
  DiskCache cache(f.path, 4000);
  auto payload = std::string(1000, 'x');
  auto now = fs::file_time_type::clock::now();
  auto store_at = [&](const std::string& key, std::chrono::hours age) {
    std::vector<std::string> before;
    for (const auto& e : cache.list()) before.push_back(e.name);
    cache.store(key, payload);
    for (const auto& e : cache.list()) {
      if (std::find(before.begin(), before.end(), e.name) != before.end()) continue;
      fs::last_write_time(f.path / (e.name + ".variant"), now - age);
    }
  };
  store_at("used", std::chrono::hours(100));
  store_at("idle", std::chrono::hours(50));
  store_at("young", std::chrono::hours(5));
  CHECK(cache.load("used"));
  CHECK(cache.load("young"));
  std::vector<DiskCache::Entry> entries = cache.list();
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].used > now - std::chrono::hours(1));   // used last
  CHECK(entries[1].used < now - std::chrono::hours(4));   // too young to be touched
  CHECK(entries[2].used < now - std::chrono::hours(49));  // idle
  cache.store("new", payload);
  CHECK(!cache.load("idle"));
  CHECK(cache.load("used"));
  CHECK(cache.load("young"));
}

TEST_CASE("an ambiguous prefix shows nothing") {
  Folder f;
  DiskCache cache(f.path);
  // More keys than hexadecimal digits, so that two names start alike.
  for (int i = 0; i < 17; ++i) cache.store("key" + std::to_string(i), "payload");
  std::string seen;
  std::optional<char> shared;
  for (const auto& e : cache.list()) {
    bool again = seen.find(e.name[0]) != std::string::npos;
    if (again) shared = e.name[0];
    seen += e.name[0];
  }
  REQUIRE(shared);
  CHECK(!cache.show(std::string(1, *shared)));
  CHECK(!cache.show(""));
  for (const auto& e : cache.list()) CHECK(cache.show(e.name)->starts_with("key"));
}

TEST_CASE(
    "a process that may write no file goes on without the cache, and is told of other files") {
  ScratchFolder folder;
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    struct rlimit none = {0, 0};
    ::setrlimit(RLIMIT_FSIZE, &none);
    DiskCache cache(folder.path() / "cache", 1 << 20);
    cache.store("preimage", "payload");
    bool stored = cache.load("preimage").has_value() || !cache.list().empty();
    std::string said;
    try {
      replace_file((folder.path() / "file").string(), "text");
    } catch (const Error& e) {
      said = e.what();
    }
    ::_exit(!stored && said.find("File too large") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);  // nonzero after a signal
  CHECK(std::filesystem::is_empty(folder.path() / "cache"));
}
