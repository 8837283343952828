// Faults planted in the dumped text of the real fused kernel, one at a time: the machine catches
// each in every interleaving and names it.
#include <doctest/doctest.h>

#include "compiler/emit.hpp"
#include "tests/nvrtc/skip.hpp"
#include "tests/ptx/recipe_space.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

struct Edit {
  std::string from, to;
};

struct Fault {
  const char* name;
  std::vector<Edit> edits;
  ptx::ErrorKind kind;
  const char* says;  // a part of the message
  std::string layout = "mixed";
  bool zero_workspace = true;
  uint64_t skip_elements = 0;
};

Point plain_point() {
  Covering space{.factors = recipe_factors()};
  Point point = space.point(Row(space.factors.size()));
  point["clip"] = "l2";
  point["loss-scale"] = "dynamic";
  return point;
}

std::string replaced(std::string text, const Edit& edit) {
  size_t at = text.find(edit.from);
  REQUIRE_MESSAGE(at != std::string::npos, edit.from);
  for (; at != std::string::npos; at = text.find(edit.from, at + edit.to.size())) {
    text.replace(at, edit.from.size(), edit.to);
  }
  return text;
}

struct Caught {
  bool any = false;
  ptx::ErrorKind kind = ptx::ErrorKind::syntax;
  std::string message;
};

Caught run(const DeviceRunner& runner, const RecipeCase& c, DeviceRun options) {
  for (const LayoutTensor& t : c.layout.tensors) options.shifts.push_back(t.shift);
  options.step_limit = 100'000'000;
  TestData data(c.data);
  try {
    runner.run(data.step(), options);
  } catch (const ptx::MachineError& error) {
    return {true, error.kind(), error.what()};
  }
  return {};
}

// A race may show itself by a value that is not there yet: it has to be named without the check of
// initialisation, and caught with it.
void check_caught(const Fault& fault, int arch) {
  Point point = plain_point();
  point["layout"] = fault.layout;
  RecipeCase c = recipe_case(point, 3);
  Schedule schedule = schedule_of(c.program, point);
  std::string text = emit_cuda(schedule);
  for (const Edit& edit : fault.edits) text = replaced(text, edit);
  DeviceRunner runner(std::move(schedule), text, arch);
  bool is_race = fault.kind == ptx::ErrorKind::race;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    INFO(std::string(fault.name), ", sm_", arch, ", seed ", seed);
    DeviceRun options{
        .seed = seed, .zero_workspace = fault.zero_workspace, .skip_elements = fault.skip_elements};
    CHECK(run(runner, c, options).any);
    options.checks.uninitialised = !is_race;
    Caught caught = run(runner, c, options);
    INFO("said: ", caught.message);
    CHECK(caught.kind == fault.kind);
    CHECK(caught.message.find(fault.says) != std::string::npos);
  }
}

const std::string kWait = "wait_for(ctx.sync->generation, before);";
const std::string kArrived = "if (last_to_arrive(ctx.sync->arrived)) {";
const std::string kRelease =
    "if (threadIdx.x == 0) store_release(ctx.sync->generation, before + 1);";

}  // namespace

TEST_CASE("faults in the dumped kernel are caught and named") {
  STEPFUSE_NEEDS_NVRTC();
  using enum ptx::ErrorKind;
  const std::vector<Fault> faults = {
      {"no grid barrier", {{kWait, ""}}, race, "of results"},
      {"no __syncthreads before arriving",
       {{"__shared__ bool last;\n  __syncthreads();", "__shared__ bool last;"}},
       race,
       "slots",
       "tiny"},
      {"no __syncthreads behind the arrival",
       {{"gridDim.x - 1;\n  __syncthreads();\n  return last;", "gridDim.x - 1;\n  return last;"}},
       race,
       "nothing orders"},
      {"no __syncthreads in the fold",
       {{"} else {\n    __syncthreads();\n    const T* const mine",
         "} else {\n    const T* const mine"}},
       race,
       "lanes"},
      {"arriving without release", {{"atom.acq_rel.gpu", "atom.acquire.gpu"}}, race, "slots"},
      {"folding without acquire", {{"atom.acq_rel.gpu", "atom.release.gpu"}}, race, "slots"},
      {"releasing without release", {{"st.release.gpu", "st.relaxed.gpu"}}, race, "results"},
      {"releasing within the block only", {{"st.release.gpu", "st.release.cta"}}, race, "sync"},
      {"waiting without acquire", {{"ld.acquire.gpu", "ld.relaxed.gpu"}}, race, "results"},
      {"released before the fold",
       {{kRelease, ""}, {kArrived, kArrived + "\n" + kRelease}},
       race,
       "results"},
      {"one word that wraps before the fold",
       {{kWait, "if (threadIdx.x == 0) while (load_acquire(ctx.sync->arrived) != 0) {}"}},
       race,
       "results"},
      {"state written too early",
       {{"if (last_to_arrive(ctx.sync->finished)) {", "if (blockIdx.x == 0) {"}},
       race,
       "state @"},
      {"off-by-one read",
       {{"load_if<T>(at + s * sizeof(T),", "load_if<T>(at + (s + 1) * sizeof(T),"}},
       out_of_bounds,
       "0 bytes behind the end of @"},
      {"one element too many",
       {{"const i32 length = i32(chunk.length);", "const i32 length = i32(chunk.length) + 1;"}},
       out_of_bounds,
       "0 bytes behind the end of @"},
      {"misaligned vector access",
       {{"return i32(u32(p) % (kTile * sizeof(T)) / sizeof(T));", "return 0;"},
        {"(u32(p) - u32(skew) * sizeof(T)) % (kTile * sizeof(T)) == 0;", "true;"}},
       misaligned,
       "an access of 16 bytes",
       "misaligned"},
      {"uninitialised workspace",
       {{"[chunk.slot] = Add::identity<float>();", "[chunk.slot];"}},
       uninitialised,
       "slots",
       "absent",
       false},
      {"32-bit index, sign overflow",
       {{"+ chunk.begin);", "+ i32(chunk.begin));"}},
       out_of_bounds,
       "in no allocation",
       "single",
       true,
       uint64_t{1} << 31},
      {"32-bit index, wrapped",
       {{"+ chunk.begin);", "+ u32(chunk.begin));"}},
       uninitialised,
       "of @",
       "mixed",
       true,
       uint64_t{1} << 32},
      {"a block leaves before the barrier",
       {{"u32 before = 0;", "if (blockIdx.x == 1) return;\n    u32 before = 0;"}},
       hang,
       "thread 0 polls"},
      {"no __syncwarp in the fold of small chunks",
       {{"if (packed) {\n    __syncwarp();\n  } else {\n    __syncthreads();\n    const T* const "
         "mine",
         "if (!packed) {\n    __syncthreads();\n    const T* const mine"}},
       race,
       "lanes",
       "tiny"},
  };
  constexpr int kArchs[] = {90, 75, 100, 80};
  for (size_t k = 0; k < faults.size(); ++k) check_caught(faults[k], kArchs[k % 4]);
}

TEST_CASE("the kernel is right where its indices pass 32 bits") {
  STEPFUSE_NEEDS_NVRTC();
  Point point = plain_point();
  point["layout"] = "misaligned";
  RecipeCase c = recipe_case(point, 3);
  Schedule schedule = schedule_of(c.program, point);
  std::string text = emit_cuda(schedule);
  DeviceRunner runner(std::move(schedule), text, 90);
  for (uint64_t skip : {uint64_t{1} << 31, (uint64_t{1} << 32) + 5}) {
    Caught caught = run(runner, c, {.skip_elements = skip});
    CHECK_MESSAGE(!caught.any, caught.message);
  }
}
