// The disk cache under damage, foreign owners, full and read-only folders, threads and processes:
// never a wrong payload, never a crash.
#include "runtime/disk_cache.hpp"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

using namespace stepfuse;
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

// Different bytes for every key and size, so that a mix-up or a torn write shows.
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
  fs::permissions(f.only_file(), fs::perms::owner_all | fs::perms::others_write);
  CHECK(!cache.load("key"));
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

TEST_CASE("a folder that cannot be written, or is none, only misses") {
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
