// Checkpoints: a resumed run equals an uninterrupted one, and a bad file changes nothing.
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/checkpoint.hpp>
#include <stepfuse/stepfuse.hpp>

using namespace stepfuse;
namespace fs = std::filesystem;

namespace {

struct Trainer {
  static constexpr size_t kSize = 3000;
  LossScaler scaler{{.init_scale = 1024, .growth_interval = 3}};
  std::vector<float> grad = std::vector<float>(kSize);
  std::vector<float> weight = std::vector<float>(kSize, 0.5F);
  std::vector<float> m = std::vector<float>(kSize, 7.0F);
  std::vector<float> v = std::vector<float>(kSize, 7.0F);
  Step step = make(scaler);

  static Step make(LossScaler& scaler) {
    Layout layout;
    layout.add({.name = "a", .size = 1000}).add({.name = "b", .size = kSize - 1000});
    RecipeOptions options{.loss_scale = LossScale::dynamic, .clip = Clip::l2};
    return Step(make_recipe("adamw", options), layout, Device::interpreter(), {.scaler = &scaler});
  }
  Trainer() {
    auto bind = [&](const char* name, std::vector<float>& x) {
      std::vector<void*> p = {x.data(), x.data() + 1000};
      step.bind(name, p);
    };
    bind("weight", weight);
    bind("exp_avg", m);
    bind("exp_avg_sq", v);
    step.prepare();
    step.init_state();
  }
  void run(int from, int to) {
    Args args = step.make_args();
    for (int i = from; i < to; ++i) {
      for (size_t k = 0; k < kSize; ++k) {
        grad[k] = static_cast<float>((k * 37 + static_cast<size_t>(i) * 101) % 2000) - 1000.0F;
      }
      if (i == 4) grad[5] = 1.0F / 0.0F;
      std::vector<void*> g = {grad.data(), grad.data() + 1000};
      args.set("lr", 1e-3 * (i + 1));
      step.run(g, args);
    }
  }
};

struct File {
  std::string path =
      (fs::temp_directory_path() / ("stepfuse-" + std::to_string(::getpid()) + ".safetensors"))
          .string();
  ~File() { fs::remove(path); }
};

std::string read(const std::string& p) {
  std::ifstream in(p, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("a resumed run equals an uninterrupted one, bit for bit") {
  File file;
  Trainer whole;
  whole.run(0, 12);
  Trainer first;
  first.run(0, 6);
  save_checkpoint(file.path, first.step);
  Trainer second;
  second.weight = first.weight;  // the model's own checkpoint
  load_checkpoint(file.path, second.step);
  CHECK(second.scaler.read() == first.scaler.read());
  second.run(6, 12);
  CHECK(second.weight == whole.weight);
  CHECK(second.m == whole.m);
  CHECK(second.v == whole.v);
  CHECK(second.step.read_state("step") == whole.step.read_state("step"));
  CHECK(second.scaler.read() == whole.scaler.read());
  CHECK(whole.step.read_state("step")[0].i64() == 11);  // one of the twelve overflowed
}

TEST_CASE("truncated, damaged and foreign files are refused, and change nothing") {
  File file;
  Trainer source;
  source.run(0, 3);
  save_checkpoint(file.path, source.step);
  std::string good = read(file.path);
  Trainer target;
  std::vector<float> before = target.m;
  auto refused = [&](const std::string& content, const char* why) {
    std::ofstream(file.path, std::ios::binary | std::ios::trunc) << content;
    std::string message;
    try {
      load_checkpoint(file.path, target.step);
    } catch (const Error& e) {
      message = e.what();
    }
    CHECK_MESSAGE(message.find(why) != std::string::npos, message);
    CHECK(target.m == before);
  };
  refused(good.substr(0, 4), "truncated");
  refused(good.substr(0, good.size() / 2), "truncated");
  refused(good.substr(0, good.size() - 1), "truncated");
  std::string flipped = good;
  flipped[good.size() - 100] = static_cast<char>(flipped[good.size() - 100] ^ 1);
  refused(flipped, "checksum");
  refused("a text file that is no checkpoint at all", "not a safetensors");
  std::string foreign = good;
  foreign.replace(foreign.find("stepfuse-checkpoint"), 8, "somebody");
  refused(foreign, "not a stepfuse checkpoint");
  std::string other = good;
  other.replace(other.find("\"1000:0"), 7, "\"1001:0");
  refused(other, "another layout");
  fs::remove(file.path);
  CHECK_THROWS_AS(load_checkpoint(file.path, target.step), Error);
}

TEST_CASE("a checkpoint that cannot be written leaves the old one") {
  Trainer t;
  CHECK_THROWS_AS(save_checkpoint("/nonexistent/folder/x.safetensors", t.step), Error);
  CHECK_THROWS_AS(save_checkpoint("/dev/full/x", t.step), Error);
}
