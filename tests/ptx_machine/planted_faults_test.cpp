// Faults planted in the step kernel's text, one at a time: each is caught under every seed and named.
#include <doctest/doctest.h>

#include "tests/ptx_machine/kernels/step_kernel.hpp"
#include "tests/support/needs_nvrtc.hpp"

using namespace ptx;
using namespace ptx::step;

namespace {

// The last tensor is absent, so that its chunk's slot is written by nothing but the fold.
const std::vector<TensorShape> kShapes = {
    {5000, 0}, {4096, 1}, {777, 0}, {4097, 2}, {63, 0, false}};

struct Fault {
  const char* name;
  std::vector<Edit> edits;
  ErrorKind kind;
  const char* says;  // a part of the message
  bool zero_workspace = true;
  std::vector<TensorShape> shapes = kShapes;
};

struct Caught {
  bool any = false;
  ErrorKind kind = ErrorKind::syntax;
  std::string message;
};

Caught run_faulty(const std::string& ptx, Data data, RunOptions options) {
  options.step_limit = 50'000'000;
  try {
    run_step(ptx, data, options);
  } catch (const MachineError& error) {
    return {true, error.kind(), error.what()};
  }
  return {};
}

// A race may show itself by a value that is not there yet, so it has to be named without the check
// of initialisation, and caught with it.
void check_caught(const Fault& fault, int arch, u32 blocks) {
  Data data = make_data(fault.shapes, 1);
  std::string ptx = step_ptx(arch, fault.edits);
  bool is_race = fault.kind == ErrorKind::race;
  for (u64 seed = 0; seed < 12; ++seed) {
    INFO(std::string(fault.name), ", sm_", arch, ", ", blocks, " blocks, seed ", seed);
    RunOptions options{.blocks = blocks, .seed = seed, .zero_workspace = fault.zero_workspace};
    CHECK(run_faulty(ptx, data, options).any);
    options.checks.uninitialised = !is_race;
    Caught caught = run_faulty(ptx, data, options);
    INFO("said: ", caught.message);
    CHECK(caught.kind == fault.kind);
    CHECK(caught.message.find(fault.says) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("planted faults are caught and named") {
  STEPFUSE_NEEDS_NVRTC();
  const std::vector<Fault> faults = {
      {"no grid barrier",
       {{"while (now == before)", "while (false)"}},
       ErrorKind::race,
       "the scalars"},
      {"no __syncthreads in the fold",
       {{"__syncthreads();  // fold: lanes", ""}},
       ErrorKind::race,
       "of shared"},
      {"no __syncthreads behind is_last",
       {{"__syncthreads();  // barrier: is_last", ""}},
       ErrorKind::race,
       "which nothing orders"},
      {"arriving without release",
       {{"atom.acq_rel.gpu", "atom.relaxed.gpu"}},
       ErrorKind::race,
       "the slots"},
      {"releasing without release",
       {{"st.release.gpu", "st.relaxed.gpu"}},
       ErrorKind::race,
       "the scalars"},
      {"releasing with a plain store",
       {{"st.release.gpu.global", "st.global"}},
       ErrorKind::race,
       "the generation"},
      {"polling without acquire",
       {{"ld.acquire.gpu", "ld.relaxed.gpu"}},
       ErrorKind::race,
       "the scalars"},
      {"acquire of too small a scope",
       {{"ld.acquire.gpu", "ld.acquire.cta"}},
       ErrorKind::race,
       "the generation"},
      {"finishing without release fence",
       {{"__threadfence();  // finish: release", ""}},
       ErrorKind::race,
       "the state"},
      {"finishing without acquire fence",
       {{"__threadfence();  // finish: acquire", ""}},
       ErrorKind::race,
       "the state"},
      {"one word that releases before the fold",
       {{"\"=r\"(now) : \"l\"(c.generation)", "\"=r\"(now) : \"l\"(c.arrived)"},
        {"while (now == before)", "while (now != 0)"}},
       ErrorKind::race,
       "the scalars"},
      {"state written by the first block to finish",
       {{"if (finished == gridDim.x - 1)", "if (finished == 0)"}},
       ErrorKind::race,
       "the state"},
      {"off-by-one read",
       {{"grad_at(tensor, index) * coef", "grad_at(tensor, index + 1) * coef"}},
       ErrorKind::out_of_bounds,
       "behind the end of"},
      {"misaligned vector access",
       {{"four_grads(tensor, piece.begin + i, g)", "four_grads(tensor, piece.begin + i + 1, g)"}},
       ErrorKind::misaligned,
       "bytes off"},
      {"uninitialised workspace",
       {{"if (t == 0) c.slots[chunk]", "if (t == 0 && tensor.present) c.slots[chunk]"}},
       ErrorKind::uninitialised,
       "the slots",
       false},
      {"32-bit index, sign overflow",
       {{"u64 index = piece.begin + i;", "int index = (int)(piece.begin + i);"}},
       ErrorKind::out_of_bounds,
       "in no allocation",
       true,
       {{5000, 0, true, u64{1} << 31}}},
      {"32-bit index, wrapped",
       {{"u64 index = piece.begin + i;", "u32 index = (u32)(piece.begin + i);"}},
       ErrorKind::uninitialised,
       "byte",
       true,
       {{5000, 1, true, u64{1} << 32}}},
      {"a block leaves before the barrier",
       {{"grid_barrier(c, shared, &is_last);\n\n  float coef",
         "if (blockIdx.x == 1) return;\n  grid_barrier(c, shared, &is_last);\n\n  float coef"}},
       ErrorKind::hang,
       "thread 0 polls"},
      {"a thread leaves before __syncthreads in one branch",
       {{"__syncthreads();  // barrier: folded", "if (threadIdx.x != 5) __syncthreads();"}},
       ErrorKind::divergent_barrier,
       "another place"},
  };
  for (const Fault& fault : faults) check_caught(fault, 90, 3);
}

TEST_CASE("everything volatile and nothing ordered is right in one memory, and not in caches") {
  STEPFUSE_NEEDS_NVRTC();
  std::string ptx = step_ptx(90, {{"float* slots;", "volatile float* slots;"},
                                  {"u32* nonfinite;", "volatile u32* nonfinite;"},
                                  {"float* scalars;", "volatile float* scalars;"},
                                  {"double* state;", "volatile double* state;"},
                                  {"atomicOr(c.nonfinite", "atomicOr((u32*)c.nonfinite"},
                                  {"atom.acq_rel.gpu", "atom.relaxed.gpu"},
                                  {"st.release.gpu", "st.relaxed.gpu"},
                                  {"ld.acquire.gpu", "ld.relaxed.gpu"},
                                  {"__threadfence();  // finish: release", ""},
                                  {"__threadfence();  // finish: acquire", ""}});
  Data data = make_data(kShapes, 1);
  u32 caught = 0;
  for (u64 seed = 0; seed < 12; ++seed) {
    INFO("seed ", seed);
    RunOptions options{.blocks = 3, .seed = seed};
    CHECK(run_faulty(ptx, data, options).message == "");
    options.incoherent = true;
    CHECK(run_faulty(step_ptx(90), data, options).message == "");
    Caught faulty = run_faulty(ptx, data, options);
    if (!faulty.any) continue;
    ++caught;
    CHECK_MESSAGE(faulty.kind == ErrorKind::uninitialised, faulty.message);
    bool named = faulty.message.find("the slots") != std::string::npos ||
                 faulty.message.find("the scalars") != std::string::npos;
    CHECK_MESSAGE(named, faulty.message);
  }
  MESSAGE("caught in ", caught, " of 12 interleavings");
  CHECK(caught >= 3);
}

TEST_CASE("a grid barrier without a cooperative launch is named") {
  STEPFUSE_NEEDS_NVRTC();
  Data data = make_data(kShapes, 1);
  for (u64 seed = 0; seed < 8; ++seed) {
    Caught caught =
        run_faulty(step_ptx(90), data, {.blocks = 3, .seed = seed, .cooperative = false});
    CHECK(caught.kind == ErrorKind::hang);
    CHECK_MESSAGE(caught.message.find("only a cooperative launch") != std::string::npos,
                  caught.message);
    CHECK(
        run_faulty(step_ptx(90), data, {.blocks = 1, .seed = seed, .cooperative = false}).message ==
        "");
  }
}

TEST_CASE("the generation read behind the arrival is found where a block freezes between the two") {
  STEPFUSE_NEEDS_NVRTC();
  std::string load =
      "    asm volatile(\"ld.relaxed.gpu.global.u32 %0, [%1];\" : \"=r\"(before) : "
      "\"l\"(c.generation) : \"memory\");\n";
  std::string ptx =
      step_ptx(90, {{load, ""}, {"    *is_last = arrived", load + "    *is_last = arrived"}});
  Data data = make_data(kShapes, 1);
  u32 caught = 0;
  // Every fifth seed freezes blocks.
  for (u64 seed = 4; seed < 300; seed += 5) {
    Caught faulty = run_faulty(ptx, data, {.blocks = 3, .seed = seed});
    if (!faulty.any) continue;
    ++caught;
    CHECK_MESSAGE(faulty.kind == ErrorKind::hang, faulty.message);
    CHECK_MESSAGE(faulty.message.find("polls") != std::string::npos, faulty.message);
  }
  MESSAGE("caught in ", caught, " of 60 interleavings");
  CHECK(caught >= 3);
}

TEST_CASE("a step whose indices pass 32 bits is right without the fault") {
  STEPFUSE_NEEDS_NVRTC();
  Data data = make_data({{5000, 0, true, u64{1} << 31}, {5000, 1, true, u64{1} << 32}}, 1);
  Data want = data;
  reference_step(want);
  run_step(step_ptx(90), data, {.blocks = 2});
  CHECK(data.tensors[0] == want.tensors[0]);
  CHECK(data.tensors[1] == want.tensors[1]);
}
