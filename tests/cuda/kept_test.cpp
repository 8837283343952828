// Disk cache entries of an earlier process that are no longer right: code that the driver refuses,
// and remembered facts about a compiler or the processor.
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "runtime/caches/disk_cache.hpp"
#include "tests/cuda/command.hpp"
#include "tests/cuda/fake_device.hpp"
#include "tests/support/scratch_folder.hpp"

#ifdef STEPFUSE_CLI_BINARY
using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

class SharedCache {
 public:
  std::string run(const char* backend, const char* more = "--digest") {
    return output_of(
        fmt::format("STEPFUSE_CACHE= STEPFUSE_CACHE_DIR={} {} {} run sgd --params=10 "
                    "--backend={} {}",
                    folder_.path().string(), on_fake_driver(), STEPFUSE_CLI_BINARY, backend, more));
  }
  bool from_disk(const char* backend) {
    return run(backend, "--json").find("\"from_disk_cache\": true") != std::string::npos;
  }
  // Preimages that contain the text.
  std::vector<std::string> with(const std::string& text) const {
    std::vector<std::string> out;
    for (const DiskCache::Entry& e : cache().list()) {
      auto preimage = cache().show(e.name);
      if (preimage && preimage->find(text) != std::string::npos) out.push_back(*preimage);
    }
    return out;
  }
  void change(const std::string& preimage, const std::function<void(std::string&)>& how) {
    DiskCache here = cache();
    auto payload = here.load(preimage);
    REQUIRE(payload.has_value());
    how(*payload);
    here.store(preimage, *payload);
  }
  void forget_variants() {
    for (const std::string& p : with("stepfuse variant")) cache().remove(p);
  }

 private:
  DiskCache cache() const { return DiskCache(folder_.path()); }
  ScratchFolder folder_;
};

}  // namespace

TEST_CASE("code on disk that the driver refuses is removed and compiled again") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  SharedCache kept;
  std::string digest = kept.run("cuda");
  REQUIRE(digest.size() == 33);
  CHECK(kept.from_disk("cuda"));
  std::vector<std::string> variants = kept.with("target cuda");
  REQUIRE(variants.size() > 0);
  for (const std::string& v : variants) {
    kept.change(v, [](std::string& code) { code = "not what a driver takes"; });
  }
  CHECK(kept.run("cuda") == digest);
  CHECK(kept.from_disk("cuda"));
  CHECK(kept.run("cuda") == digest);
}

TEST_CASE("what is remembered of NVRTC is confirmed before anything is kept under its name") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  SharedCache kept;
  std::string digest = kept.run("cuda");
  std::vector<std::string> facts = kept.with("which NVRTC");
  REQUIRE(facts.size() == 1);
  kept.forget_variants();
  kept.change(facts[0], [](std::string& f) {
    size_t answer = f.find('\n', f.find('\n') + 1) + 1;
    f.insert(f.find(' ', answer) + 1, "7");  // 13.0 becomes 13.70
  });
  CHECK(kept.run("cuda") == digest);
  CHECK(kept.with("target cuda").empty());
  CHECK(kept.with("which NVRTC").empty());
  CHECK(kept.run("cuda") == digest);
  CHECK(kept.from_disk("cuda"));
}

TEST_CASE("what is remembered of LLVM and of the processor is confirmed likewise") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  SharedCache kept;
  std::string digest = kept.run("cpu");
  if (kept.with("target cpu").empty()) {
    MESSAGE("skipped: LLVM was not found, or the CPU backend keeps nothing: " << digest);
    return;
  }
  auto change_line = [](int line, const std::string& text) {
    return [=](std::string& f) {
      size_t begin = 0;
      for (int i = 0; i < line; ++i) begin = f.find('\n', begin) + 1;
      f.replace(begin, f.find('\n', begin) - begin, text);
    };
  };
  // The lines after the file's identity and path: version, vector bits, the processor's name, its
  // features.
  for (auto [line, text] : {std::pair{2, "19.1.99"}, {4, "x86-64"}}) {
    std::vector<std::string> facts = kept.with("which LLVM");
    REQUIRE(facts.size() == 1);
    kept.forget_variants();
    kept.change(facts[0], change_line(line, text));
    CHECK(kept.run("cpu") == digest);
    CHECK(kept.with("target cpu").empty());
    CHECK(kept.with("which LLVM").empty());
    CHECK(kept.run("cpu") == digest);
    CHECK(kept.from_disk("cpu"));
  }
}
#endif
