// Records of bad steps, and their replay.
#include "runtime/saved/record.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/ir.hpp>
#include <stepfuse/stepfuse.hpp>

#include "tests/support/file_faults.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;
namespace fs = std::filesystem;

namespace {

// Captures this process's standard error.
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

struct Plan {
  std::string gradient = "grad";
  Form form = Form::fused;
  bool first_absent = false;
  bool init = false;
  std::vector<int> infinite = {3};  // steps with an infinity in element 7 of the gradient
  std::vector<int> huge = {};       // steps with a finite gradient whose norm is not
};

struct Recording {
  ScratchFolder folder;
  std::vector<float> weight = std::vector<float>(500, 1.0F);
  Recording(const std::string& when) {
    ::setenv("STEPFUSE_RECORD", (folder.path().string() + when).c_str(), 1);
  }
  ~Recording() { ::unsetenv("STEPFUSE_RECORD"); }
  StandardError messages;
  // Six steps over a tensor of 500 elements, which follows one of 20.
  void train(const Plan& plan = {}) {
    Layout layout;
    layout.add({.name = "first\n\xff", .elements = 20}).add({.name = "layer", .elements = 500});
    LossScaler scaler;
    Program program = make_recipe("adamw", {.loss_scale = LossScale::dynamic, .clip = Clip::l2});
    program.buffers[static_cast<size_t>(program.find_buffer("grad"))].name = plan.gradient;
    Step step(program, layout, Device::interpreter(),
              {.form = plan.form, .scaler = &scaler, .gradient = plan.gradient});
    std::vector<float> m(520), v(520), grad(500), first(60, 1.0F);
    auto bind = [&](const char* name, float* small, std::vector<float>& x) {
      std::vector<void*> p = {small, x.data()};
      step.bind_raw(name, p);
    };
    bind("weight", first.data(), weight);
    bind("exp_avg", &first[20], m);
    bind("exp_avg_sq", &first[40], v);
    step.prepare();
    if (plan.init) {
      step.init_state();
    } else {
      step.adopt_state();
    }
    Args args = step.make_args();
    std::vector<float> small(20, 0.5F);
    std::vector<void*> p = {plan.first_absent ? nullptr : small.data(), grad.data()};
    auto among = [](const std::vector<int>& steps, int i) {
      return std::find(steps.begin(), steps.end(), i) != steps.end();
    };
    for (int i = 0; i < 6; ++i) {
      grad.assign(500, among(plan.huge, i) ? 1e38F : 2.0F);
      if (among(plan.infinite, i)) grad[7] = 1.0F / 0.0F;
      step.run(p, args);
    }
  }
  std::string file() const {
    REQUIRE(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
    return fs::directory_iterator(folder.path())->path().string();
  }
};

}  // namespace

TEST_CASE("the first non-finite step is recorded and replayed to the same bits") {
  Recording r("");
  r.train();
  StepRecord record = load_record(r.file());
  CHECK(record.index == 3);
  CHECK(r.messages.text().find("stepfuse replay " + r.file()) != std::string::npos);
  CHECK(first_nonfinite(record) == "tensor 1 'layer' element 7 is inf");
  ::unsetenv("STEPFUSE_RECORD");
  StepRecord a = replay(record, Device::interpreter(), Form::fused);
  CHECK(!first_difference(a, replay(record, Device::interpreter(), Form::split)));
  CHECK(a.buffers[1] == record.buffers[1]);  // a bad step keeps the weights
  // A difference is reported with its tensor, element and line.
  StepRecord b = a;
  b.buffers[1][1][4 * 9] ^= 1;
  auto d = first_difference(a, b);
  REQUIRE(d);
  CHECK(d->what == "@weight of tensor 1 'layer' element 9");
  CHECK(d->line.starts_with("store @weight"));
  CHECK(d->count == 1);
}

TEST_CASE("a chosen step is recorded") {
  Recording r(":step=4");
  r.train();
  CHECK(load_record(r.file()).index == 4);
}

TEST_CASE("the step that initialises arrays is not the caller's first step") {
  Recording r(":step=0");
  r.train({.init = true});
  CHECK(load_record(r.file()).program.name == "adamw");
}

TEST_CASE("the first bad step is recorded, not the next ones") {
  Recording r("");
  r.train({.infinite = {2, 4, 5}});
  CHECK(load_record(r.file()).index == 2);
}

TEST_CASE("a norm that overflows is recorded although each gradient is finite") {
  Recording r("");
  r.train({.infinite = {}, .huge = {1}});
  StepRecord record = load_record(r.file());
  CHECK(record.index == 1);
  CHECK(!first_nonfinite(record));
}

TEST_CASE("what was recorded replays in any form, absent gradients and foreign names included") {
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    for (bool absent : {false, true}) {
      CAPTURE(name(form));
      CAPTURE(absent);
      Recording r(":step=1");
      r.train({.gradient = "dw", .form = form, .first_absent = absent, .infinite = {}});
      StepRecord record = load_record(r.file());
      CHECK(record.form == form);
      CHECK(record.gradient == "dw");
      CHECK(record.present == std::vector<uint8_t>{absent ? uint8_t{0} : uint8_t{1}, 1});
      CHECK(record.layout.tensors()[0].name.starts_with("first\n"));
      CHECK(record.layout.tensors()[1].name == "layer");
      StepRecord a = replay(record, Device::interpreter(), form);
      for (Form other : {Form::fused, Form::split, Form::unfused}) {
        CHECK(!first_difference(a, replay(record, Device::interpreter(), other)));
      }
      CHECK((a.buffers[1][0] == record.buffers[1][0]) == absent);
      CHECK(a.buffers[1][1] != record.buffers[1][1]);
      CHECK(first_difference(record, a)->what.starts_with("@weight of tensor"));
    }
  }
}

// A record of a tensor whose only array, the gradient, was absent, so that no array in the file has
// its size.
StepRecord of_absent(uint64_t size, uint64_t columns) {
  StepRecord r;
  r.program = parse(columns == 0 ? "step @s {\n  buffer @grad : f32 in\n  report @r : f32\n"
                                   "  %g = load @grad : [f32]\n  %sum = reduce_add %g : f32\n"
                                   "  write @r, %sum\n}\n"
                                 : "step @s {\n  buffer @grad : f32 in\n  report @r : f32\n"
                                   "  %g = load @grad : [f32]\n  %row = reduce_add %g : <f32/row>\n"
                                   "  %max = reduce_max %row : f32\n  write @r, %max\n}\n");
  r.gradient = "grad";
  r.layout.add(
      {.name = "t", .elements = size, .columns = columns, .dtypes = {{"grad", DType::f32}}});
  r.present = {0};
  r.buffers = {{""}};
  r.states = {{Bits{}}};
  return r;
}

TEST_CASE("a record takes memory in proportion to its file") {
  ScratchFolder folder;
  std::string path = (folder.path() / "a.safetensors").string();
  auto loaded = [&](uint64_t size, uint64_t columns) {
    save_record(path, of_absent(size, columns));
    return message_of([&] { load_record(path); });
  };
  CHECK(loaded(1 << 20, 0) == "no error");
  CHECK(loaded(1 << 20, 1 << 10) == "no error");
  for (uint64_t size : {uint64_t{1} << 31, uint64_t{1} << 24, uint64_t{1} << 44}) {
    std::string message = loaded(size, 1);
    CHECK_MESSAGE(message.find("its tensors are larger than anything in it") != std::string::npos,
                  message);
  }
  CHECK(loaded(uint64_t{1} << 40, 0).find("its tensors are larger") != std::string::npos);
  CHECK(loaded(uint64_t{1} << 34, uint64_t{1} << 17).find("its tensors are larger") !=
        std::string::npos);
  StepRecord small = (save_record(path, of_absent(1 << 20, 1 << 10)), load_record(path));
  CHECK(!first_difference(replay(small, Device::interpreter(), Form::fused),
                          replay(small, Device::interpreter(), Form::split)));
}

TEST_CASE("a record and its folder are the user's alone, whatever new files are") {
  auto mode = [](const fs::path& path) { return fs::status(path).permissions(); };
  mode_t old = ::umask(0);
  Recording r("/made/by/us/");
  r.train();
  fs::path folder = r.folder.path() / "made/by/us";
  fs::path file = folder / "adamw-step3.safetensors";
  CHECK(mode(folder) == fs::perms::owner_all);
  CHECK(mode(file) == (fs::perms::owner_read | fs::perms::owner_write));
  fs::permissions(file, fs::perms::all);  // perhaps of an earlier run
  r.train();
  CHECK(mode(file) == (fs::perms::owner_read | fs::perms::owner_write));
  ::umask(old);
}

TEST_CASE("a record is not recorded again by its replay") {
  Recording r("");
  r.train();
  std::string file = r.file();
  replay(load_record(file), Device::interpreter(), Form::fused);
  CHECK(r.file() == file);
}

TEST_CASE("the folder is made, and no failure of recording reaches the trainer") {
  {
    Recording r("/made/by/us");
    r.train();
    CHECK(fs::exists(r.folder.path() / "made/by/us/adamw-step3.safetensors"));
  }
  std::vector<float> weight;
  {
    Recording r("/file/folder");
    write_bytes((r.folder.path() / "file").string(), "");
    r.train();
    CHECK(r.messages.text().find("not recorded") != std::string::npos);
    weight = r.weight;
  }
  Recording r("/full");
  FullDisk disk(100);
  r.train();
  CHECK(r.weight == weight);
  CHECK(entries(r.folder.path() / "full") == 0);
}

TEST_CASE("nonsense is refused") {
  Recording r(":when=tuesday");
  CHECK_THROWS_AS(r.train(), Error);
  CHECK_THROWS_AS(load_record("/dev/null"), Error);
}

TEST_CASE("STEPFUSE_RECORD names a step in 64 bits") {
  Layout layout;
  layout.add({.elements = 1});
  auto make = [&](const char* value) {
    ::setenv("STEPFUSE_RECORD", value, 1);
    Step(make_recipe("sgd"), layout, Device::interpreter());
  };
  for (const char* value : {"x:step=0", "x:step=18446744073709551615"}) CHECK_NOTHROW(make(value));
  for (const char* value : {"x:step=18446744073709551616", "x:step=-1", "x:step= 1", "x:step=+1",
                            "x:step=", "x:step=1x", "x:when=step=99999999999999999999"}) {
    CAPTURE(value);
    CHECK_THROWS_WITH_AS(make(value), doctest::Contains("is not a number from 0 to 2^64 - 1"),
                         Error);
  }
  ::unsetenv("STEPFUSE_RECORD");
}
