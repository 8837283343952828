// Recording a bad step and running it again elsewhere.
#include "runtime/record.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

using namespace stepfuse;
namespace fs = std::filesystem;

namespace {

struct Recording {
  fs::path folder;
  std::vector<float> weight = std::vector<float>(500, 1.0F);
  Recording(const std::string& when) {
    std::string name = (fs::temp_directory_path() / "stepfuse-record-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    ::setenv("STEPFUSE_RECORD", (folder.string() + when).c_str(), 1);
  }
  ~Recording() {
    ::unsetenv("STEPFUSE_RECORD");
    fs::remove_all(folder);
  }
  // Six steps; the gradient of step 3 has an infinity in element 7.
  void train() {
    Layout layout;
    layout.add({.name = "layer", .size = 500});
    LossScaler scaler;
    RecipeOptions options{.loss_scale = LossScale::dynamic, .clip = Clip::l2};
    Step step(make_recipe("adamw", options), layout, Device::interpreter(), {.scaler = &scaler});
    std::vector<float> m(500), v(500), grad(500, 2.0F);
    std::vector<void*> p = {weight.data()};
    step.bind("weight", p);
    p = {m.data()};
    step.bind("exp_avg", p);
    p = {v.data()};
    step.bind("exp_avg_sq", p);
    step.prepare();
    Args args = step.make_args();
    p = {grad.data()};
    for (int i = 0; i < 6; ++i) {
      grad[7] = i == 3 ? 1.0F / 0.0F : 2.0F;
      step.run(p, args);
    }
  }
  std::string file() const {
    std::string found;
    for (const auto& e : fs::directory_iterator(folder)) found = e.path().string();
    return found;
  }
};

}  // namespace

TEST_CASE("the first non-finite step is recorded and replayed to the same bits") {
  Recording r("");
  r.train();
  StepRecord record = load_record(r.file());
  CHECK(record.index == 3);
  CHECK(first_nonfinite(record, "grad") == "tensor 0 'layer' element 7 is inf");
  ::unsetenv("STEPFUSE_RECORD");
  StepRecord a = replay(record, Device::interpreter(), Form::fused);
  CHECK(!first_difference(a, replay(record, Device::interpreter(), Form::split)));
  CHECK(a.buffers[1] == record.buffers[1]);  // the weights of a bad step stay
  // A difference is named with its tensor, element and line.
  StepRecord b = a;
  b.buffers[1][0][4 * 9] ^= 1;
  auto d = first_difference(a, b);
  REQUIRE(d);
  CHECK(d->what == "@weight of tensor 0 'layer' element 9");
  CHECK(d->line.starts_with("store @weight"));
  CHECK(d->count == 1);
}

TEST_CASE("a chosen step is recorded") {
  Recording r(":step=4");
  r.train();
  CHECK(load_record(r.file()).index == 4);
}

TEST_CASE("nonsense is refused") {
  Recording r(":when=tuesday");
  CHECK_THROWS_AS(r.train(), Error);
  CHECK_THROWS_AS(load_record("/dev/null"), Error);
}
