// The names that profilers see: written where they are asked for, and to a file of ours only.
#include "runtime/cpu/perf_map.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/support/scratch_folder.hpp"

using namespace stepfuse;
namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& p) {
  std::ifstream in(p);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Names two functions in a process of its own, after `prepare` was called with its map's path; what
// the map holds afterwards, if it is a file.
std::string map_of(const char* wanted, const std::function<void(const std::string&)>& prepare) {
  pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::setenv("STEPFUSE_PERF_MAP", wanted, 1);
    prepare(fmt::format("/tmp/perf-{}.map", ::getpid()));
    name_for_profilers(reinterpret_cast<void*>(0x1234), 0x40, "adamw", "sf_phase_0");
    name_for_profilers(reinterpret_cast<void*>(0x5678), 0x10, "a b\nc", "sf_finish");
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  fs::path map = fmt::format("/tmp/perf-{}.map", child);
  std::string text = fs::is_regular_file(map) ? read(map) : "";
  fs::remove(map);
  return text;
}

}  // namespace

TEST_CASE("kernels are named for profilers where that is asked for") {
  auto nothing = [](const std::string&) {};
  CHECK(map_of("1", nothing) ==
        "1234 40 stepfuse:adamw:sf_phase_0\n5678 10 stepfuse:a_b_c:sf_finish\n");
  CHECK(map_of("0", nothing).empty());
  CHECK(map_of("1", [](const std::string& path) { std::ofstream(path) << "1 2 other\n"; }) ==
        "1 2 other\n1234 40 stepfuse:adamw:sf_phase_0\n5678 10 stepfuse:a_b_c:sf_finish\n");
}

TEST_CASE("a link, a pipe or another name of a file is not written to") {
  testing::ScratchFolder scratch;
  fs::path victim = scratch.path() / "victim";
  std::ofstream(victim) << "precious";
  map_of("1", [&](const std::string& path) { fs::create_symlink(victim, path); });
  CHECK(read(victim) == "precious");
  map_of("1", [&](const std::string& path) { ::mkfifo(path.c_str(), 0600); });
  map_of("1", [&](const std::string& path) {
    std::error_code ec;
    fs::create_hard_link(victim, path, ec);
  });
  CHECK(read(victim) == "precious");
}
