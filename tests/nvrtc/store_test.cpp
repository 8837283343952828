// The kernel store of the tests: it hands out what the real NVRTC makes of a text, and compiles another text
// again. Knows NVRTC's functions.
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <iterator>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "runtime/cuda/nvrtc.hpp"
#include "runtime/cuda/nvrtc_library.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace stepfuse::cuda;
using stepfuse::testing::ScratchFolder;
namespace fs = std::filesystem;

namespace {

NvrtcLibrary open(const std::string& path) {
  NvrtcLibrary library;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return library;
#define X(name, result, parameters) \
  library.name = reinterpret_cast<result(*) parameters>(dlsym(handle, #name));
  STEPFUSE_NVRTC_FUNCTIONS(X)
#undef X
  return library;
}

struct Outcome {
  int result = 0;
  std::string log, ptx, cubin;
  bool operator==(const Outcome&) const = default;
};

std::string fetch(NvrtcProgram program, int (*size_of)(NvrtcProgram, size_t*),
                  int (*get)(NvrtcProgram, char*)) {
  size_t size = 0;
  if (size_of(program, &size) != 0) return "";
  std::string bytes(size, '\0');
  get(program, bytes.data());
  return bytes;
}

Outcome compile(const NvrtcLibrary& nvrtc, const std::string& text, const std::string& arch) {
  std::string option = "--gpu-architecture=" + arch;
  const char* options[] = {option.c_str(), "--ptxas-options=-v"};
  NvrtcProgram program = nullptr;
  nvrtc.nvrtcCreateProgram(&program, text.c_str(), "kernel.cu", 0, nullptr, nullptr);
  Outcome out;
  out.result = nvrtc.nvrtcCompileProgram(program, arch.starts_with("sm_") ? 2 : 1, options);
  out.log = fetch(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog);
  if (out.result == 0) {
    out.ptx = fetch(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX);
    out.cubin = fetch(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN);
  }
  nvrtc.nvrtcDestroyProgram(&program);
  return out;
}

}  // namespace

TEST_CASE("the kernel store gives what NVRTC gives, and compiles each text once") {
  STEPFUSE_NEEDS_NVRTC();
  ScratchFolder folder;
  setenv("STEPFUSE_KERNEL_STORE", folder.path().c_str(), 1);
  // A copy, since this process may have opened the library for another folder.
  std::string copy = folder.path() / "libnvrtc.so";
  fs::copy_file(STEPFUSE_NVRTC_STORE, copy);
  NvrtcLibrary store = open(copy);
  REQUIRE((store.nvrtcGetCUBIN != nullptr));
  auto text = [](const char* value) {
    return fmt::format("extern \"C\" __global__ void f(int* a) {{ *a = {}; }}\n", value);
  };
  auto kept = [&] {
    return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator());
  };
  for (std::string arch : {"compute_90", "sm_90"}) {
    CAPTURE(arch);
    auto before = kept();
    Outcome first = compile(store, text("17"), arch);
    CHECK(first.result == 0);
    CHECK(first.ptx.find("17") != std::string::npos);
    CHECK(first.cubin.empty() == (arch == "compute_90"));
    CHECK(kept() == before + 1);
    CHECK(compile(store, text("17"), arch) == first);
    CHECK(kept() == before + 1);
    CHECK(compile(store, text("18"), arch).ptx.find("18") != std::string::npos);
    CHECK(kept() == before + 2);
  }
  CHECK(compile(store, text("17"), "compute_80").ptx.find(".target sm_80") != std::string::npos);
  for (int again = 0; again < 2; ++again) {
    Outcome refused = compile(store, text("nothing"), "compute_90");
    CHECK(refused.result != 0);
    CHECK(refused.log.find("\"nothing\" is undefined") != std::string::npos);
  }
}
