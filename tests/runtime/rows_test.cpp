// Steps that keep values of rows: their states follow the layout, shards are cut where rows are. Knows the public API.
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/checkpoint.hpp>
#include <stepfuse/stepfuse.hpp>

#include "tests/support/messages.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

Program program() {
  return make_recipe(parse_optimizer(R"(optimizer o "" {
    state v : row f32 = 1
    v = v + norm(g, row)
    w = w - v * g
  })"));
}

// Two rows of three and one of two; then, appended, two rows of one.
struct Run {
  std::vector<float> weight = std::vector<float>(10), grad = {3, 4, 0, 0, 0, 2, 6, 8, 1, -1};
  Step step;
  explicit Run(const Device& device)
      : step(program(),
             Layout().add({.name = "a", .size = 6, .columns = 3}).add({.name = "b", .size = 2}),
             device) {
    step.prepare();
  }
  std::vector<void*> pointers(std::vector<float>& of) {
    std::vector<void*> list = {of.data(), of.data() + 6};
    if (step.layout().size() == 3) list.push_back(of.data() + 8);
    return list;
  }
  std::vector<float> rows() {
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

TEST_CASE(
    "rows' values are kept from step to step, by tensors that come later and by checkpoints") {
  for (const Device& device : {Device::interpreter(), Device::cpu(2)}) {
    Run a(device);
    a.step.bind("weight", a.pointers(a.weight));
    a.step.init_state();
    CHECK(a.rows() == Floats{1, 1, 1});
    a.run();
    CHECK(a.rows() == Floats{6, 3, 11});
    CHECK(a.weight[1] == -24);
    CHECK(a.weight[5] == -6);
    a.step.append({.name = "c", .size = 2, .columns = 1});
    a.step.prepare();
    a.step.bind("weight", a.pointers(a.weight));
    a.step.init_tensors(2);
    CHECK(a.rows() == Floats{6, 3, 11, 1, 1});
    a.run();
    CHECK(a.rows() == Floats{11, 5, 21, 2, 2});

    std::string path = std::filesystem::temp_directory_path() / "stepfuse_rows_test.safetensors";
    save_checkpoint(path, a.step);
    Run b(device);
    b.step.append({.name = "c", .size = 2, .columns = 1});
    b.step.prepare();
    b.step.bind("weight", b.pointers(b.weight));
    load_checkpoint(path, b.step);
    CHECK(b.rows() == Floats{11, 5, 21, 2, 2});
    std::filesystem::remove(path);
  }
}

TEST_CASE("a shard of a step with values of rows has whole rows") {
  auto step_of = [&](TensorSpec shard) {
    Step step(program(), Layout().add(std::move(shard)), Device::interpreter());
  };
  CHECK(has(message_of(ErrorKind::bind,
                       [&] { step_of({.size = 16384, .full_size = 30000, .columns = 1000}); }),
            "ends within a row"));
  CHECK(has(message_of(ErrorKind::bind,
                       [&] { step_of({.size = 7616, .offset = 16384, .full_size = 24000}); }),
            "cut shards where both a row of 24000 and 16,384 elements begin"));
  step_of({.size = 16384, .offset = 16384, .full_size = 65536, .columns = 4096});
}
