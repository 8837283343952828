// Steps that keep values of rows or columns: their states follow the layout, shards are cut where
// rows are or not at all. Knows the public API.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/checkpoint.hpp>
#include <stepfuse/ir.hpp>
#include <stepfuse/stepfuse.hpp>

#include "tests/support/messages.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

Optimizer optimizer(std::string_view granularity) {
  return parse_optimizer(fmt::format(R"(optimizer o "" {{
    state v : {0} f32 = 1
    v = v + norm(g, {0})
    w = w - v * g
  }})",
                                     granularity));
}
Program program(std::string_view granularity) { return make_recipe(optimizer(granularity)); }

// Two rows of three and one of two; then, appended, two rows of one.
struct Run {
  std::vector<float> weight = std::vector<float>(10), grad = {3, 4, 0, 0, 0, 2, 6, 8, 3, -4};
  Step step;
  Run(const Device& device, std::string_view granularity)
      : step(program(granularity),
             Layout()
                 .add({.name = "a", .elements = 6, .columns = 3})
                 .add({.name = "b", .elements = 2}),
             device) {
    step.prepare();
  }
  std::vector<void*> pointers(std::vector<float>& of) {
    std::vector<void*> list = {of.data(), of.data() + 6};
    if (step.layout().size() == 3) list.push_back(of.data() + 8);
    return list;
  }
  std::vector<float> kept() {
    std::vector<float> values;
    for (Bits b : step.read_state("v")) values.push_back(b.f32());
    return values;
  }
  void run() {
    std::vector<void*> grads = pointers(grad);
    step.run(grads, step.make_args());
  }
};

using Floats = std::vector<float>;

}  // namespace

TEST_CASE("what rows or columns keep stays, when tensors come later and in checkpoints") {
  struct Case {
    std::string_view per;
    float weight_1;  // after a step
    Floats first, one_step, appended, two_steps;
  };
  std::vector<Case> cases = {
      {"row", -24, {1, 1, 1}, {6, 3, 11}, {6, 3, 11, 1, 1}, {11, 5, 21, 4, 5}},
      {"column", -20, {1, 1, 1, 1, 1}, {4, 5, 3, 7, 9}, {4, 5, 3, 7, 9, 1}, {7, 9, 5, 13, 17, 6}}};
  for (const Device& device : {Device::interpreter(), Device::cpu(2)}) {
    for (const Case& c : cases) {
      CAPTURE(c.per);
      Run a(device, c.per);
      a.step.bind_raw("weight", a.pointers(a.weight));
      a.step.init_state();
      CHECK(a.kept() == c.first);
      a.run();
      CHECK(a.kept() == c.one_step);
      CHECK(a.weight[1] == c.weight_1);
      CHECK(a.weight[5] == -6);
      a.step.append({.name = "c", .elements = 2, .columns = 1});
      a.step.prepare();
      a.step.bind_raw("weight", a.pointers(a.weight));
      a.step.init_tensors(Tensor{2});
      CHECK(a.kept() == c.appended);
      a.run();
      CHECK(a.kept() == c.two_steps);

      std::string path = std::filesystem::temp_directory_path() / "stepfuse_rows_test.safetensors";
      save_checkpoint(path, a.step);
      Run b(device, c.per);
      b.step.append({.name = "c", .elements = 2, .columns = 1});
      b.step.prepare();
      b.step.bind_raw("weight", b.pointers(b.weight));
      load_checkpoint(path, b.step);
      CHECK(b.kept() == c.two_steps);
      std::filesystem::remove(path);
    }
  }
}

TEST_CASE("a shard of a step with values of rows has whole rows") {
  auto step_of = [&](TensorSpec shard) {
    Step step(program("row"), Layout().add(std::move(shard)), Device::interpreter());
  };
  CHECK(has(
      message_of(ErrorKind::bind,
                 [&] { step_of({.elements = 16384, .full_elements = 30000, .columns = 1000}); }),
      "ends within a row"));
  CHECK(
      has(message_of(ErrorKind::bind,
                     [&] { step_of({.elements = 7616, .offset = 16384, .full_elements = 24000}); }),
          "cut it at multiples of 24000 elements"));
  step_of({.elements = 16384, .offset = 16384, .full_elements = 65536, .columns = 4096});
}

TEST_CASE("a tensor of a step with values of columns is whole") {
  auto step_of = [](TensorSpec t) {
    Step step(program("column"), Layout().add(std::move(t)), Device::interpreter());
  };
  CHECK(has(
      message_of(ErrorKind::bind,
                 [&] {
                   step_of(
                       {.name = "w", .elements = 16384, .full_elements = 65536, .columns = 4096});
                 }),
      "'w' is a shard, and step @o has per-column values"));
  step_of({.name = "w", .elements = 16384, .columns = 4096});
}

TEST_CASE("columns and blocks are refused by the options' names") {
  RecipeOptions copies{.master = true, .model = DType::f8e4m3, .copy_scale = CopyScale::mx};
  std::string said =
      message_of(ErrorKind::usage, [&] { make_recipe(optimizer("column"), copies); });
  CHECK(has(said, "o has per-column values, and a block has elements of several columns"));
  CHECK(has(said, "another .copy_scale"));
  CHECK(has_rows(make_recipe(optimizer("row"), copies)));
}
