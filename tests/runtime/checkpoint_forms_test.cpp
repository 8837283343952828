// Checkpoints of moments in formats: codes and scales are bit-identical, different forms are
// refused, and forms can be converted.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/checkpoint.hpp>
#include <stepfuse/format.hpp>
#include <stepfuse/stepfuse.hpp>

#include "ir/semantics/interpreter.hpp"
#include "runtime/files/safetensors.hpp"
#include "tests/support/file_faults.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr const char* kBoth = "exp_avg=int8|exp_avg_sq=fp8";

using Sizes = std::vector<size_t>;
const Sizes kSizes = {3000, 33};

// A step over some tensors, with arrays for all its buffers.
struct Run {
  Sizes sizes;
  Step step;
  std::map<std::string, std::vector<std::vector<char>>> arrays;

  static RecipeOptions options(std::string_view moments) {
    RecipeOptions o{.clip = Clip::l2};
    set_option(o, "moments", moments);
    return o;
  }
  static Layout layout(const Sizes& sizes, uint64_t offset) {
    Layout layout;
    for (size_t size : sizes) layout.add({.name = "t", .elements = size, .offset = offset});
    return layout;
  }
  explicit Run(std::string_view moments, Sizes shape = kSizes, uint64_t offset = 0,
               std::string_view recipe = "adamw")
      : sizes(std::move(shape)),
        step(make_recipe(recipe, options(moments)), layout(sizes, offset), Device::interpreter(),
             {}) {
    for (const Buffer& b : step.program().buffers) {
      std::vector<void*> pointers;
      for (size_t size : sizes) {
        auto& list = arrays[b.name];
        list.emplace_back(b.count(size, size) * size_of(b.dtypes.only()), 7);
        pointers.push_back(list.back().data());
      }
      if (b.name == "grad") continue;
      if (b.name == "weight") fill(arrays[b.name], 3);
      step.bind_raw(b.name, pointers);
    }
    step.prepare();
    step.init_state();
  }

  static void fill(std::vector<std::vector<char>>& list, uint32_t seed) {
    for (std::vector<char>& bytes : list) {
      auto* numbers = reinterpret_cast<float*>(bytes.data());
      for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
        seed = seed * 1664525 + 1013904223;
        numbers[i] = static_cast<float>(seed >> 8) / 8388608.0F - 1;
      }
    }
  }
  void run(uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; ++i) {
      fill(arrays["grad"], i);
      std::vector<void*> g;
      for (auto& list : arrays["grad"]) g.push_back(list.data());
      step.run(g, step.make_args());
    }
  }
};

struct Files {
  ScratchFolder folder;
  std::string at(const char* name) const { return (folder.path() / name).string(); }
};

// The result of converting one tensor's arrays, by buffer.
std::map<std::string, std::vector<char>> converted(
    const std::string& from, const std::string& to,
    const std::map<std::string, std::vector<char>>& in, size_t size) {
  Program p = conversion(from, to);
  std::map<std::string, std::vector<char>> out;
  StepTensor tensor{.size = size, .data = {}, .dtypes = {}};
  for (const Buffer& b : p.buffers) {
    auto& bytes = out[b.name];
    bytes.resize(b.count(size, size) * size_of(b.dtypes.only()));
    if (b.access == Access::in) bytes = in.at(b.name);
    tensor.data.push_back(bytes.data());
    tensor.dtypes.push_back(b.dtypes.only());
  }
  StepData data;
  data.tensors.push_back(tensor);
  interpret(p, data);
  return out;
}

void check_same(Run& a, Run& b) {
  for (auto& [name, list] : a.arrays) {
    CAPTURE(name);
    if (name != "grad") CHECK(list == b.arrays.at(name));
  }
}

}  // namespace

TEST_CASE("codes and scales are saved and loaded bit for bit, and the run continues") {
  Files files;
  for (std::string_view moments : {"fp8", "int8", kBoth, "bf16"}) {
    CAPTURE(moments);
    Run whole(moments);
    whole.run(0, 6);
    Run first(moments);
    first.run(0, 3);
    save_checkpoint(files.at("a"), first.step);
    Run second(moments);
    load_checkpoint(files.at("a"), second.step);
    second.arrays["weight"] = first.arrays["weight"];  // the model's own checkpoint, in place
    check_same(first, second);
    second.run(3, 6);
    check_same(whole, second);
  }
}

TEST_CASE("another form, length or offset is refused, and the message says what to do") {
  Files files;
  Run eight("fp8");
  eight.run(0, 2);
  save_checkpoint(files.at("fp8"), eight.step);
  Run wide("f32");
  wide.run(0, 2);
  save_checkpoint(files.at("f32"), wide.step);
  auto refused = [&](const char* file, Run&& into, const std::string& reason) {
    auto before = into.arrays;
    std::string message = message_of([&] { load_checkpoint(files.at(file), into.step); });
    CHECK_MESSAGE(message.find(reason) != std::string::npos, message);
    CHECK(into.arrays == before);
  };
  refused("fp8", Run("int8"), "it keeps 'exp_avg' as fp8, step @adamw as int8; make the step with");
  refused("fp8", Run("int8"), "NEW --moments='exp_avg=int8'");
  refused("fp8", Run("f32"),
          "stepfuse convert " + files.at("fp8") + " NEW --moments='exp_avg=f32'");
  refused("f32", Run("fp8"), "it keeps 'exp_avg' as an array of numbers, step @adamw as fp8");
  refused("f32", Run("bf16"), "buffer.exp_avg.0");
  refused("fp8", Run("fp8", {3000, 34}), "a different layout");
  refused("fp8", Run("fp8", kSizes, 16384), "a different layout");
}

TEST_CASE("a checkpoint's moments are converted from form to form, each number rounded once") {
  Files files;
  // Longer than the unit of conversion, with a ragged end.
  const Sizes sizes = {(size_t{1} << 18) + 300, 33};
  Run wide("f32", sizes);
  wide.run(0, 2);
  save_checkpoint(files.at("f32"), wide.step);
  convert_checkpoint(files.at("f32"), files.at("both"), kBoth);
  Run narrow(kBoth, sizes);
  load_checkpoint(files.at("both"), narrow.step);
  CHECK(narrow.step.read_state("step") == wide.step.read_state("step"));
  for (size_t t = 0; t < sizes.size(); ++t) {
    for (auto [moment, form] : {std::pair("exp_avg", "int8"), std::pair("exp_avg_sq", "fp8")}) {
      auto made = converted("f32", form, {{"from", wide.arrays[moment][t]}}, sizes[t]);
      for (const char* part : {".code", ".scale"}) {
        std::string name = std::string(form) + part;
        CHECK(narrow.arrays[std::string(moment) + "." + name][t] == made["to." + name]);
      }
    }
  }
  convert_checkpoint(files.at("both"), files.at("back"), "f32");
  Run back("f32", sizes);
  load_checkpoint(files.at("back"), back.step);
  for (size_t t = 0; t < sizes.size(); ++t) {
    auto made = converted("fp8", "f32",
                          {{"from.fp8.code", narrow.arrays["exp_avg_sq.fp8.code"][t]},
                           {"from.fp8.scale", narrow.arrays["exp_avg_sq.fp8.scale"][t]}},
                          sizes[t]);
    CHECK(back.arrays["exp_avg_sq"][t] == made["to"]);
  }
  CHECK(back.arrays["exp_avg"] != wide.arrays["exp_avg"]);
  // Converting to the present form keeps the file as it is.
  convert_checkpoint(files.at("both"), files.at("again"), kBoth);
  CHECK(read_bytes(files.at("again")) == read_bytes(files.at("both")));
  convert_checkpoint(files.at("f32"), files.at("bf16"), "bf16");
  Run half("bf16", sizes);
  load_checkpoint(files.at("bf16"), half.step);
  CHECK(half.arrays["exp_avg"][1] ==
        converted("f32", "bf16", {{"from", wide.arrays["exp_avg"][1]}}, 33)["to"]);
  // In place: the old file is read before it is replaced.
  convert_checkpoint(files.at("f32"), files.at("f32"), kBoth);
  CHECK(read_bytes(files.at("f32")) == read_bytes(files.at("both")));
}

TEST_CASE("what cannot be converted is refused by name, and writes nothing") {
  Files files;
  Run wide("f32");
  wide.run(0, 1);
  save_checkpoint(files.at("f32"), wide.step);
  std::string good = read_bytes(files.at("f32"));
  auto refused = [&](const std::string& content, std::string_view moments, const char* reason) {
    write_bytes(files.at("in"), content);
    std::string message =
        message_of([&] { convert_checkpoint(files.at("in"), files.at("out"), moments); });
    CHECK_MESSAGE(message.find(reason) != std::string::npos, message);
    CHECK_FALSE(std::filesystem::exists(files.at("out")));
  };
  refused(good, "fp9", "there is no format 'fp9'");
  refused(good, "momentum=fp8", "has no moment 'momentum'; it has exp_avg, exp_avg_sq");
  refused(replaced(good, "stepfuse-checkpoint", "somebody-checkpoint"), "fp8",
          "not a stepfuse checkpoint");
  std::string flipped = good;
  flipped[good.size() - 100] = static_cast<char>(flipped[good.size() - 100] ^ 1);
  refused(flipped, "fp8", "checksum");
  refused(good.substr(0, good.size() - 1), "fp8", "truncated");

  // In a step that the library does not know, it cannot tell which arrays are moments.
  Program mine = make_recipe("lion", Run::options("f32"));
  mine.name = "mine";
  Step step(mine, Run::layout({40}, 0), Device::interpreter(), {});
  std::vector<float> weight(40), average(40);
  std::vector<void*> p = {weight.data()};
  step.bind_raw("weight", p);
  p = {average.data()};
  step.bind_raw("exp_avg", p);
  step.prepare();
  step.init_state();
  save_checkpoint(files.at("mine"), step);
  refused(read_bytes(files.at("mine")), "fp8",
          "@mine is not a built-in optimizer: name the moments");
  convert_checkpoint(files.at("mine"), files.at("out"), "exp_avg=fp8");
  CHECK(TensorReader(files.at("out")).arrays().contains("buffer.exp_avg.fp8.scale.0"));
}
