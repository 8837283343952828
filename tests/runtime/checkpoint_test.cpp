// Checkpoints: a resumed run equals an uninterrupted one, and a bad file changes nothing.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/checkpoint.hpp>
#include <stepfuse/monitor.hpp>
#include <stepfuse/stepfuse.hpp>

#include "runtime/files/safetensors.hpp"
#include "tests/support/file_faults.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;
namespace fs = std::filesystem;

namespace {

struct Trainer {
  static constexpr size_t kSize = 3000;
  LossScaler scaler{{.init_scale = 1024, .growth_interval = 3}};
  std::vector<float> grad = std::vector<float>(kSize);
  std::vector<float> weight = std::vector<float>(kSize, 0.5F);
  std::vector<float> m = std::vector<float>(kSize, 7.0F);
  std::vector<float> v = std::vector<float>(kSize, 7.0F);
  std::vector<float> ema = std::vector<float>(kSize, 7.0F);
  Step step;

  static RecipeOptions options() { return {.loss_scale = LossScale::dynamic, .clip = Clip::l2}; }
  static Layout layout(size_t first = 1000, uint64_t offset = 0) {
    Layout layout;
    layout.add({.name = "a", .elements = first})
        .add({.name = "b", .elements = kSize - first, .offset = offset});
    return layout;
  }
  explicit Trainer(const RecipeOptions& recipe = options(), const Layout& shape = layout())
      : step(make_recipe("adamw", recipe), shape, Device::interpreter(), {.scaler = &scaler}) {
    size_t second = shape.tensors()[0].elements;
    auto bind = [&](const char* name, std::vector<float>& x) {
      std::vector<void*> p = {x.data(), x.data() + second};
      if (step.program().find_buffer(name) >= 0) step.bind_raw(name, p);
    };
    bind("weight", weight);
    bind("exp_avg", m);
    bind("exp_avg_sq", v);
    bind("ema", ema);
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
  ScratchFolder folder;
  std::string path = (folder.path() / "step.safetensors").string();
};

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

TEST_CASE("steps are numbered on") {
  File file;
  Trainer first;
  first.run(0, 6);
  save_checkpoint(file.path, first.step);
  Trainer second;
  second.run(0, 2);  // an unrelated run
  load_checkpoint(file.path, second.step);
  CHECK(second.step.latest()->index == 1);
  second.run(6, 8);
  CHECK(second.step.latest()->index == 7);
  CHECK(second.step.history().size() == 4);
  CHECK(second.step.history()[2].index == 6);
  Monitor monitor;
  Trainer third;
  load_checkpoint(file.path, third.step);
  third.run(6, 7);
  monitor.feed(third.step);
  CHECK(monitor.lost() == 0);  // another process ran steps 0 to 5
  save_checkpoint(file.path, third.step);
  CHECK(TensorReader(file.path).number("index") == 7);
}

TEST_CASE("truncated, damaged and foreign files are refused, and change nothing") {
  File file;
  Trainer source;
  source.run(0, 3);
  save_checkpoint(file.path, source.step);
  std::string good = read_bytes(file.path);
  Trainer target;
  std::vector<float> before = target.m;
  auto refused = [&](const std::string& content, const char* reason) {
    write_bytes(file.path, content);
    std::string message = message_of([&] { load_checkpoint(file.path, target.step); });
    CHECK_MESSAGE(message.find(reason) != std::string::npos, message);
    CHECK(target.m == before);
  };
  refused(good.substr(0, 4), "truncated");
  refused(good.substr(0, good.size() / 2), "truncated");
  refused(good.substr(0, good.size() - 1), "truncated");
  std::string flipped = good;
  flipped[good.size() - 100] = static_cast<char>(flipped[good.size() - 100] ^ 1);
  refused(flipped, "checksum");
  refused("a text file that is no checkpoint at all", "not a safetensors");
  refused(replaced(good, "stepfuse-checkpoint", "somebody-checkpoint"),
          "not a stepfuse checkpoint");
  refused(replaced(good, "\"version\":\"2\"", "\"version\":\"3\""),
          "a different version of stepfuse");
  refused(replaced(good, "\"1000:0", "\"1001:0"), "a different layout");
  // The digest covers the metadata and cannot be switched off.
  refused(replaced(good, "\"index\":\"3\"", "\"index\":\"4\""), "checksum");
  refused(replaced(good, "\"index\":\"3\"", "\"index\":\"x\""), "not a number");
  refused(replaced(good, "\"xxh3_128\"", "\"xxh3_129\""), "no digest");
  refused(replaced(good, "buffer.exp_avg.0", "buffer.exp_abg.0"), "lacks an array");
  refused(good + std::string(8, '\0'), "8 bytes follow");
  fs::remove(file.path);
  CHECK_THROWS_AS(load_checkpoint(file.path, target.step), Error);
}

TEST_CASE("another length, another offset and other arrays are refused by name") {
  File file;
  save_checkpoint(file.path, Trainer().step);
  auto reason = [&](Trainer&& t) {
    return message_of([&] { load_checkpoint(file.path, t.step); });
  };
  auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(reason(Trainer(Trainer::options(), Trainer::layout(999))), "a different layout"));
  CHECK(
      has(reason(Trainer(Trainer::options(), Trainer::layout(1000, 16384))), "a different layout"));
  Trainer adam;
  Step other(make_recipe("adam", Trainer::options()), Trainer::layout(), Device::interpreter(),
             {.scaler = &adam.scaler});
  for (auto [name, array] :
       {std::pair{"weight", &adam.weight}, {"exp_avg", &adam.m}, {"exp_avg_sq", &adam.v}}) {
    std::vector<void*> p = {array->data(), array->data() + 1000};
    other.bind_raw(name, p);
  }
  CHECK(has(message_of([&] { load_checkpoint(file.path, other); }), "a different step than @adam"));
  // A step without the scaler.
  std::string message = reason(Trainer(RecipeOptions{.clip = Clip::l2}));
  CHECK_MESSAGE(has(message, "'scaler.growth_tracker'; make the step with the loss scaling"),
                message);
  message = reason(Trainer({.loss_scale = LossScale::dynamic, .clip = Clip::l2, .ema = true}));
  CHECK_MESSAGE(has(message, "lacks an array of step @adamw, 'buffer.ema.0'"), message);
  CHECK_MESSAGE(has(message, "name \"ema\" in LoadOptions::optional"), message);
}

TEST_CASE("a run goes on with more or fewer arrays where that is asked for") {
  File file;
  RecipeOptions with_ema = Trainer::options();
  with_ema.ema = true;
  Trainer plain;
  plain.run(0, 3);
  save_checkpoint(file.path, plain.step);
  Trainer more(with_ema);
  load_checkpoint(file.path, more.step, {.optional = {"ema"}});
  CHECK(more.m == plain.m);
  CHECK(more.ema == std::vector<float>(Trainer::kSize, 0.5F));  // as init_state() left it
  save_checkpoint(file.path, more.step);
  Trainer fewer;
  CHECK_THROWS_AS(load_checkpoint(file.path, fewer.step), Error);
  CHECK_THROWS_AS(load_checkpoint(file.path, fewer.step, {.optional = {"ema"}}), Error);
  load_checkpoint(file.path, fewer.step, {.ignored = {"ema"}});
  CHECK(fewer.m == plain.m);
  CHECK(fewer.step.read_state("step") == plain.step.read_state("step"));
  // A buffer in the file is loaded even if it is optional.
  Trainer again(with_ema);
  again.ema.assign(Trainer::kSize, 9.0F);
  load_checkpoint(file.path, again.step, {.optional = {"ema"}});
  CHECK(again.ema == more.ema);
}

TEST_CASE("a checkpoint that cannot be written leaves the old one") {
  File file;
  Trainer t;
  CHECK_THROWS_AS(save_checkpoint("/nonexistent/folder/x.safetensors", t.step), Error);
  CHECK_THROWS_AS(save_checkpoint("/dev/full/x", t.step), Error);
  save_checkpoint(file.path, t.step);
  std::string good = read_bytes(file.path);
  t.run(0, 2);
  for (size_t room : {size_t{0}, size_t{100}, good.size() / 2, good.size() - 1}) {
    CAPTURE(room);
    FullDisk disk(room);
    std::string message = message_of([&] { save_checkpoint(file.path, t.step); });
    CHECK_MESSAGE(message.find("cannot write") != std::string::npos, message);
  }
  CHECK(read_bytes(file.path) == good);
  CHECK(entries(file.folder.path()) == 1);  // no partial file remains
  save_checkpoint(file.path, t.step);
  CHECK(read_bytes(file.path) != good);
}

TEST_CASE("saving and loading take no memory for the whole state") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  MESSAGE("skipped: sanitizers take address space as they like");
#else
  constexpr size_t kElements = size_t{24} << 20;  // 96 MiB in each array
  File file;
  std::vector<float> weight(kElements), m(kElements, 3.0F);
  Layout layout;
  layout.add({.name = "large", .elements = kElements});
  Step step(make_recipe("lion", {}), layout, Device::interpreter(), {});
  std::vector<void*> p = {weight.data()};
  step.bind_raw("weight", p);
  p = {m.data()};
  step.bind_raw("exp_avg", p);
  {
    LittleMemory room(size_t{32} << 20);
    save_checkpoint(file.path, step);
  }
  m[kElements - 1] = 0;
  {
    LittleMemory room(size_t{32} << 20);
    load_checkpoint(file.path, step);
  }
  CHECK(m[kElements - 1] == 3.0F);
#endif
}
