// Runs commands by the shell. Knows where the fake driver is.
#include "tests/cuda/command.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

namespace stepfuse::testing {

std::string quoted(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += fmt::format(" '{}'", w);
  return out;
}

std::string output_of(const std::string& command) {
#ifdef __SANITIZE_ADDRESS__
  // The leak checker stops all threads at exit, and now and then fails to where many processes end.
  std::string line = "ASAN_OPTIONS=detect_leaks=0 " + command + " 2>&1";
#else
  std::string line = command + " 2>&1";
#endif
  FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return "cannot start " + command;
  std::string out;
  char part[4096];
  for (size_t n = 0; (n = fread(part, 1, sizeof part, pipe)) > 0;) out.append(part, n);
  pclose(pipe);
  return out;
}

bool on_real_gpu() {
  const char* wanted = std::getenv("STEPFUSE_TEST_REAL_GPU");
  return wanted != nullptr && std::string_view(wanted) == "1";
}

std::string on_fake_driver() {
  if (on_real_gpu()) return "";
  std::string folder = std::filesystem::path(STEPFUSE_FAKE_DRIVER).parent_path();
  return fmt::format(
      "STEPFUSE_CUDA_CODE=ptx LD_LIBRARY_PATH={}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}", folder);
}

}  // namespace stepfuse::testing
