// Which NVRTC a program opens that nobody named: a copy of the command line tool in a folder of the
// test's own, with NVRTC put here and there around it.
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "runtime/cuda/nvrtc.hpp"
#include "tests/cuda/command.hpp"
#include "tests/support/scratch_folder.hpp"

#ifdef STEPFUSE_CLI_BINARY
using namespace stepfuse;
using namespace stepfuse::testing;
namespace fs = std::filesystem;

namespace {

constexpr unsigned kNobody = 65534;

class Installed {
 public:
  Installed() : root(fs::canonical(folder_.path())), tool(root / "a/b/c/stepfuse") {
    fs::create_directories(tool.parent_path());
    fs::copy_file(STEPFUSE_CLI_BINARY, tool);
  }
  std::string env(const std::string& variables = "STEPFUSE_NVRTC_DIR=") const {
    return output_of(variables + " STEPFUSE_CACHE=off " + tool.string() + " env");
  }
  // Puts NVRTC into a folder of this name.
  fs::path put(const fs::path& home) const {
    fs::path to = root / home / "nvrtc";
    fs::create_directory(to);
    fs::path library = cuda::nvrtc_status().path;
    fs::create_symlink(library, to / library.filename());
    return to;
  }
  // Whether NVRTC of the folder, or any other, was opened.
  bool opens(const fs::path& nvrtc) const {
    return env().find("path         " + nvrtc.string()) != std::string::npos;
  }
  // Makes the tool one that runs with another user's rights.
  void give_away() const {
    REQUIRE(::chown(tool.c_str(), kNobody, kNobody) == 0);
    REQUIRE(::chmod(tool.c_str(), 04755) == 0);
    for (fs::path p = tool.parent_path(); p != root.parent_path(); p = p.parent_path()) {
      REQUIRE(::chmod(p.c_str(), 0755) == 0);
    }
  }

 private:
  ScratchFolder folder_;

 public:
  fs::path root, tool;
};

}  // namespace

#define STEPFUSE_NEEDS_NVRTC()                            \
  if (!cuda::nvrtc_status().available) {                  \
    MESSAGE("skipped: " << cuda::nvrtc_status().problem); \
    return;                                               \
  }

TEST_CASE("NVRTC is found beside the program, above it and in a build folder, and nowhere else") {
  STEPFUSE_NEEDS_NVRTC();
  Installed here;
  fs::path far = here.put("."), two_up = here.put("a");
  CHECK_FALSE(here.opens(far));
  CHECK_FALSE(here.opens(two_up));
  std::ofstream(here.root / "a/CMakeCache.txt") << "\n";
  CHECK(here.opens(two_up));
  CHECK_FALSE(here.opens(far));
  fs::path above = here.put("a/b");
  CHECK(here.opens(above));
  fs::path beside = here.put("a/b/c");
  CHECK(here.opens(beside));
}

TEST_CASE(
    "NVRTC is found where pip puts it: in the active environment, and in the program's prefix") {
  STEPFUSE_NEEDS_NVRTC();
  Installed here;
  fs::path library = cuda::nvrtc_status().path;
  auto put = [&](const fs::path& prefix) {
    fs::path to = here.root / prefix / "lib/python3.11/site-packages/nvidia/cu13/lib";
    fs::create_directories(to);
    fs::create_symlink(library, to / library.filename());
    return to;
  };
  auto opens = [&](const std::string& variables, const fs::path& folder) {
    return here.env("env -u VIRTUAL_ENV -u CONDA_PREFIX STEPFUSE_NVRTC_DIR= " + variables)
               .find("path         " + folder.string()) != std::string::npos;
  };
  fs::path venv = put("venv"), far = put("a");
  std::string active = "VIRTUAL_ENV=" + (here.root / "venv").string();
  CHECK_FALSE(opens("", venv));
  CHECK_FALSE(opens("", far));
  CHECK(opens(active, venv));
  CHECK(opens("CONDA_PREFIX=" + (here.root / "venv").string(), venv));
  fs::path own = put("a/b");  // the program is a/b/c/stepfuse
  CHECK(opens("", own));
  CHECK(opens(active, venv));
  REQUIRE(::chmod(own.c_str(), 0757) == 0);
  CHECK_FALSE(opens("", own));
  REQUIRE(::chmod(venv.c_str(), 0757) == 0);
  CHECK(opens(active, venv));  // its user has named it
}

TEST_CASE("what another user could have put there is not opened, and said so") {
  STEPFUSE_NEEDS_NVRTC();
  Installed here;
  fs::path beside = here.put("a/b/c");
  REQUIRE(here.opens(beside));
  for (mode_t mode : {0775, 0757}) {
    REQUIRE(::chmod(beside.c_str(), mode) == 0);
    CHECK_FALSE(here.opens(beside));
  }
  REQUIRE(::chmod(beside.c_str(), 0755) == 0);
  fs::path library = beside / fs::path(cuda::nvrtc_status().path).filename();
  fs::path real = here.root / "real.so";
  fs::copy_file(fs::read_symlink(library), real);
  fs::remove(library);
  fs::create_symlink(real, library);
  CHECK(here.opens(beside));
  REQUIRE(::chmod(real.c_str(), 0775) == 0);
  CHECK_FALSE(here.opens(beside));
  // Named, it is the caller's own decision.
  CHECK(here.env("STEPFUSE_NVRTC_DIR=" + beside.string()).find(beside.string()) !=
        std::string::npos);
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can give files to another user");
    return;
  }
  REQUIRE(::chmod(real.c_str(), 0755) == 0);
  REQUIRE(::chown(beside.c_str(), kNobody, kNobody) == 0);
  CHECK_FALSE(here.opens(beside));
}

TEST_CASE("a program that has another user's rights takes no library from the environment") {
  STEPFUSE_NEEDS_NVRTC();
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can make such a program");
    return;
  }
  Installed here;
  std::string named = fs::path(cuda::nvrtc_status().path).parent_path();
  std::string variables = fmt::format(
      "STEPFUSE_NVRTC_DIR={} CUDA_HOME=/named CUDA_PATH=/named "
      "STEPFUSE_LLVM_LIBRARY=/named/llvm.so",
      named);
  std::string own = here.env(variables);
  CHECK(own.find(named) != std::string::npos);
  CHECK(own.find("/named/llvm.so") != std::string::npos);
  here.give_away();
  std::string foreign = here.env(variables);
  REQUIRE(foreign.find("processor") != std::string::npos);
  CHECK(foreign.find(named) == std::string::npos);
  CHECK(foreign.find("/named") == std::string::npos);
}

TEST_CASE("a program that has another user's rights takes no folder of code from the environment") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can make such a program");
    return;
  }
  Installed here;
  std::string kernels = here.root / "no_kernels", cache = here.root / "named_cache";
  auto run = [&] {
    return output_of(
        fmt::format("STEPFUSE_KERNELS={} STEPFUSE_CACHE=off {} run sgd --params=10 "
                    "--backend=cpu",
                    kernels, here.tool.string()));
  };
  auto env = [&] {
    return output_of(
        fmt::format("STEPFUSE_CACHE=on STEPFUSE_CACHE_DIR={} {} env", cache, here.tool.string()));
  };
  CHECK(run().find(kernels) != std::string::npos);
  CHECK(env().find(cache) != std::string::npos);
  here.give_away();
  CHECK(run().find(kernels) == std::string::npos);
  CHECK(env().find(cache) == std::string::npos);
  CHECK(env().find("other rights than its caller") != std::string::npos);
}
#endif
