// Facts that are remembered of libraries: only of the very file and processor, and only sane ones.
#include "runtime/caches/remembered.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>

#include "runtime/caches/disk_cache.hpp"
#include "runtime/cpu/llvm_facts.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace stepfuse;
namespace fs = std::filesystem;

namespace {

// The process's cache reads its environment once: it is to be a folder of these tests.
const fs::path& cache_of_the_process() {
  static const testing::ScratchFolder scratch;
  static const fs::path folder = [] {
    ::setenv("STEPFUSE_CACHE", "", 1);
    ::setenv("STEPFUSE_CACHE_DIR", (scratch.path() / "cache").c_str(), 1);
    return DiskCache::process().folder();
  }();
  return folder;
}

void write(const fs::path& p, const std::string& text) { std::ofstream(p) << text; }

}  // namespace

TEST_CASE("an answer is known as long as the file is the same") {
  REQUIRE(fs::exists(cache_of_the_process()));
  testing::ScratchFolder scratch;
  fs::path library = scratch.path() / "library";
  fs::path other = scratch.path() / "other";
  write(library, "1234");
  auto time = fs::last_write_time(library);
  auto again = [&] {
    write(library, "1234");
    fs::last_write_time(library, time);
    remember_answer("question", library, "answer\nin lines");
  };
  again();
  CHECK(recall_answer("question") == "answer\nin lines");
  CHECK(!recall_answer("another question"));

  write(library, "12345");  // another size
  fs::last_write_time(library, time);
  CHECK(!recall_answer("question"));
  again();
  fs::last_write_time(library, time + std::chrono::nanoseconds(1));
  CHECK(!recall_answer("question"));
  fs::last_write_time(library, time + std::chrono::seconds(1));
  CHECK(!recall_answer("question"));
  again();
  write(other, "1234");  // same size and time, another file
  fs::last_write_time(other, time);
  fs::rename(other, library);
  CHECK(!recall_answer("question"));
  again();
  CHECK(recall_answer("question"));
  fs::remove(library);
  CHECK(!recall_answer("question"));
  remember_answer("question", library, "of no file");
  CHECK(!recall_answer("question"));
  again();
  forget_answer("question");
  CHECK(!recall_answer("question"));
}

TEST_CASE("another processor is another question") {
  const std::string one =
      "processor : 0\nvendor_id : A\ncpu family : 6\nmodel : 85\nmodel name : X\nstepping : 4\n"
      "cpu MHz : 2000.1\nflags : fpu avx\n\nprocessor : 1\nvendor_id : B\n";
  auto described = [](const std::string& text) {
    std::istringstream in(text);
    return describe_processor(in);
  };
  auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = one;
    text.replace(text.find(from), from.size(), to);
    return described(text);
  };
  CHECK(!described(one).empty());
  CHECK(changed("2000.1", "3000") == described(one));
  CHECK(changed("vendor_id : B", "vendor_id : C") == described(one));  // the first core's only
  for (auto [from, to] : {std::pair{"id : A", "id : B"},
                          {"family : 6", "family : 7"},
                          {"model : 85", "model : 86"},
                          {"stepping : 4", "stepping : 5"},
                          {"fpu avx", "fpu"}}) {
    CAPTURE(from);
    CHECK(changed(from, to) != described(one));
  }
  // ARM's has other lines.
  CHECK(described("Features : fp\n") != described("Features : fp sve\n"));
  CHECK(described("CPU part : 0xd0c\n") != described("CPU part : 0xd40\n"));
}

TEST_CASE("facts that cannot be are not believed") {
  LlvmFacts facts{"19.1.7", {.cpu = "znver5", .features = "+avx,-sse4.1", .vector_bits = 512}};
  std::string text = print_llvm_facts(facts);
  REQUIRE(parse_llvm_facts(text));
  CHECK(parse_llvm_facts(text)->host.features == "+avx,-sse4.1");
  CHECK(parse_llvm_facts(text)->host.vector_bits == 512);
  for (const char* bad :
       {"", "19.1.7", "19.1.7\n3\nznver5\n+avx", "19.1.7\n0\nznver5\n+avx",
        "19.1.7\n-128\nznver5\n+avx", "19.1.7\n1024\nznver5\n+avx", "19.1.7\n512\nznver5",
        "x\"y\n512\nznver5\n+avx", "19.1.7\n512\nzn\"ver5\n+avx", "19.1.7\n512\nznver5\n+avx\nmore",
        "19.1.7\n512\nznver5\n+avx\\0a"}) {
    CAPTURE(bad);
    CHECK(!parse_llvm_facts(bad));
  }
}

TEST_CASE("what the kernels are made for is asked of this processor and this library") {
  REQUIRE(fs::exists(cache_of_the_process()));
  if (llvm_facts().version.empty()) {
    MESSAGE("skipped: there is no LLVM");
    return;
  }
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string processor = describe_processor(cpuinfo);
  CHECK(!processor.empty());
  bool found = false;
  for (const auto& e : DiskCache::process().list()) {
    std::string question = DiskCache::process().show(e.name).value_or("");
    if (question.find("which LLVM") == std::string::npos) continue;
    found = true;
    CHECK(question.find(processor) != std::string::npos);
    auto answer = recall_answer(question);
    REQUIRE(answer);
    CHECK(*answer == print_llvm_facts(llvm_facts()));
  }
  CHECK(found);
}
