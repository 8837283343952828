// Recording a bad step and running it again elsewhere.
#include "runtime/record.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

#include "tests/scratch_folder.hpp"

using namespace stepfuse;
namespace fs = std::filesystem;

namespace {

// What this process writes to its standard error meanwhile.
class StandardError {
 public:
  StandardError() : kept_(::dup(STDERR_FILENO)), file_(std::tmpfile()) {
    std::fflush(stderr);
    ::dup2(::fileno(file_), STDERR_FILENO);
  }
  ~StandardError() {
    std::fflush(stderr);
    ::dup2(kept_, STDERR_FILENO);
    ::close(kept_);
    std::fclose(file_);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;
  std::string text() {
    std::fflush(stderr);
    std::string out(4096, '\0');
    std::rewind(file_);
    out.resize(std::fread(out.data(), 1, out.size(), file_));
    return out;
  }

 private:
  int kept_;
  std::FILE* file_;
};

struct Recording {
  testing::ScratchFolder folder;
  std::vector<float> weight = std::vector<float>(500, 1.0F);
  Recording(const std::string& when) {
    ::setenv("STEPFUSE_RECORD", (folder.path().string() + when).c_str(), 1);
  }
  ~Recording() { ::unsetenv("STEPFUSE_RECORD"); }
  StandardError messages;
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
    for (const auto& e : fs::directory_iterator(folder.path())) found = e.path().string();
    return found;
  }
};

}  // namespace

TEST_CASE("the first non-finite step is recorded and replayed to the same bits") {
  Recording r("");
  r.train();
  StepRecord record = load_record(r.file());
  CHECK(record.index == 3);
  CHECK(r.messages.text().find("stepfuse replay " + r.file()) != std::string::npos);
  CHECK(first_nonfinite(record) == "tensor 0 'layer' element 7 is inf");
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
