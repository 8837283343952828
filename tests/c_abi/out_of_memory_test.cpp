// The C API without memory: every allocation during a training fails once, which must give a status
// and nothing else. A run itself must not allocate. Replaces operator new.
#include <cstdio>
#include <cstdlib>
#include <new>
#include <sys/resource.h>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.h>

namespace {

// Counts down from at least 0; the allocation at 0 fails.
thread_local long until_failure = -1;
thread_local long allocations = 0;

void* allocate(size_t bytes, size_t alignment) {
  ++allocations;
  if (until_failure == 0) {
    until_failure = -1;
    throw std::bad_alloc();
  }
  if (until_failure > 0) --until_failure;
  size_t size = (bytes + alignment) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes, 16); }
void* operator new(size_t bytes, std::align_val_t a) {
  return allocate(bytes, static_cast<size_t>(a));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return allocate(bytes, 16);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace {

struct Life {
  stepfuse_program* program = nullptr;
  stepfuse_layout* layout = nullptr;
  stepfuse_scaler* scaler = nullptr;
  stepfuse_step* step = nullptr;
  stepfuse_args* args = nullptr;
  stepfuse_stats* stats = nullptr;
  stepfuse_monitor* monitor = nullptr;
  char* text = nullptr;
  float weight[100] = {}, grad[100] = {}, exp_avg[100] = {}, exp_avg_sq[100] = {};

  static constexpr const char* kCheckpoint = "out_of_memory_test.safetensors";

  ~Life() {
    std::remove(kCheckpoint);
    stepfuse_free(text);
    stepfuse_monitor_destroy(monitor);
    stepfuse_stats_destroy(stats);
    stepfuse_args_destroy(args);
    stepfuse_step_destroy(step);
    stepfuse_scaler_destroy(scaler);
    stepfuse_layout_destroy(layout);
    stepfuse_program_destroy(program);
  }

  // The first status that is not OK.
  stepfuse_status live() {
    auto tensor = stepfuse_tensor STEPFUSE_TENSOR;
    tensor.name = "a tensor whose name is too long to stand in a string without memory of its own";
    tensor.elements = 100;
    auto device = stepfuse_device STEPFUSE_DEVICE;
    device.kind = STEPFUSE_INTERPRETER;
    auto options = stepfuse_step_options STEPFUSE_STEP_OPTIONS;
    const char* recipe[] = {"loss-scale=dynamic", "clip=l2"};
    void* gradients[] = {grad};
    void* weights[] = {weight};
    void* m[] = {exp_avg};
    void* v[] = {exp_avg_sq};
    int32_t lr = 0, found = 0;
    size_t count = 0;
    double value = 0;
    auto each = [](void*, const stepfuse_stats*) {};
    auto finding = [](void*, const stepfuse_stats*, const char*) {};
    stepfuse_status s = STEPFUSE_OK;
    (void)((s = stepfuse_recipe("adamw", recipe, 2, &program)) ||
           (s = stepfuse_program_print(program, &text)) || (s = stepfuse_layout_create(&layout)) ||
           (s = stepfuse_layout_add(layout, &tensor)) ||
           (s = stepfuse_scaler_create(nullptr, &scaler)) ||
           (options.scaler = scaler,
            (s = stepfuse_step_create(program, layout, &device, &options, &step)) != 0) ||
           (s = stepfuse_step_prepare(step)) ||
           (s = stepfuse_step_bind(step, "weight", weights, 1)) ||
           (s = stepfuse_step_bind(step, "exp_avg", m, 1)) ||
           (s = stepfuse_step_bind(step, "exp_avg_sq", v, 1)) ||
           (s = stepfuse_step_init_state(step, nullptr)) ||
           (s = stepfuse_step_arg(step, "lr", &lr)) || (s = stepfuse_step_make_args(step, &args)) ||
           (s = stepfuse_args_set(args, lr, 0.1)) ||
           (s = stepfuse_step_run(step, gradients, 1, args, nullptr)) ||
           (s = stepfuse_stats_create(&stats)) || (s = stepfuse_step_latest(step, stats, &found)) ||
           (s = stepfuse_stats_get(stats, "grad_norm", &value)) ||
           (s = stepfuse_step_history(step, each, nullptr)) ||
           (s = stepfuse_monitor_create(&monitor)) ||
           (s = stepfuse_monitor_scale_below(monitor, 1e9, finding, nullptr)) ||
           (s = stepfuse_monitor_feed(monitor, step)) ||
           (s = stepfuse_step_read_state(step, "step", nullptr, 0, &count, nullptr)) ||
           (s = stepfuse_save_checkpoint(kCheckpoint, step)));
    return s;
  }
};

}  // namespace

TEST_CASE(
    "each allocation of a training fails once: a status, no exception, nothing leaked into later "
    "calls") {
  REQUIRE(Life().live() == STEPFUSE_OK);
  long failed = 0;
  for (long n = 0;; ++n) {
    stepfuse_status status;
    bool reached;
    {
      Life life;
      until_failure = n;
      status = life.live();
      reached = until_failure == -1;
      until_failure = -1;
    }
    if (!reached) {
      REQUIRE(status == STEPFUSE_OK);
      break;
    }
    CAPTURE(n);
    // An allocation for an optimisation or a note may fail without an error.
    CHECK((status == STEPFUSE_ERROR_OUT_OF_MEMORY || status == STEPFUSE_OK));
    failed += status == STEPFUSE_ERROR_OUT_OF_MEMORY;
  }
  MESSAGE(failed << " allocations failed, each with a status");
  CHECK(failed > 100);
  CHECK(Life().live() == STEPFUSE_OK);
}

TEST_CASE("a step whose own memory is more than the process may have says that it is memory") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  MESSAGE("skipped: a sanitizer takes address space for itself");
#else
  struct rlimit old = {};
  REQUIRE(::getrlimit(RLIMIT_AS, &old) == 0);
  Life life;
  auto tensor = stepfuse_tensor STEPFUSE_TENSOR;
  tensor.elements = uint64_t{1} << 36;  // its scratch arrays are 256 GB each
  auto device = stepfuse_device STEPFUSE_DEVICE;
  device.kind = STEPFUSE_INTERPRETER;
  auto options = stepfuse_step_options STEPFUSE_STEP_OPTIONS;
  options.form = STEPFUSE_UNFUSED;
  REQUIRE(stepfuse_recipe("lamb", nullptr, 0, &life.program) == STEPFUSE_OK);
  REQUIRE(stepfuse_layout_create(&life.layout) == STEPFUSE_OK);
  REQUIRE(stepfuse_layout_add(life.layout, &tensor) == STEPFUSE_OK);
  struct rlimit less = {uint64_t{1} << 35, old.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_AS, &less) == 0);
  stepfuse_status status =
      stepfuse_step_create(life.program, life.layout, &device, &options, &life.step);
  REQUIRE(::setrlimit(RLIMIT_AS, &old) == 0);
  CHECK(status == STEPFUSE_ERROR_OUT_OF_MEMORY);
#endif
}

TEST_CASE("an error's message without memory") {
  stepfuse_program* program = nullptr;
  for (long n = 0; n < 200; ++n) {
    until_failure = n;
    stepfuse_status status =
        stepfuse_parse("step @s {\n  oops oops oops oops oops\n}\n", "my.sf", &program);
    bool failed = until_failure == -1;
    until_failure = -1;
    CHECK(status != STEPFUSE_OK);
    CHECK(stepfuse_error_message()[0] != 0);
    if (!failed) break;
  }
}

TEST_CASE("run allocates nothing") {
  Life life;
  REQUIRE(life.live() == STEPFUSE_OK);
  auto device = stepfuse_device STEPFUSE_DEVICE;
  stepfuse_step* step = nullptr;
  stepfuse_args* args = nullptr;
  auto options = stepfuse_step_options STEPFUSE_STEP_OPTIONS;
  options.scaler = life.scaler;
  REQUIRE(stepfuse_step_create(life.program, life.layout, &device, &options, &step) == STEPFUSE_OK);
  if (stepfuse_step_prepare(step) != STEPFUSE_OK) {
    MESSAGE("skipped: " << stepfuse_error_message());
  } else {
    void* weights[] = {life.weight};
    void* m[] = {life.exp_avg};
    void* v[] = {life.exp_avg_sq};
    void* gradients[] = {life.grad};
    REQUIRE(stepfuse_step_bind(step, "weight", weights, 1) == STEPFUSE_OK);
    REQUIRE(stepfuse_step_bind(step, "exp_avg", m, 1) == STEPFUSE_OK);
    REQUIRE(stepfuse_step_bind(step, "exp_avg_sq", v, 1) == STEPFUSE_OK);
    REQUIRE(stepfuse_step_init_state(step, nullptr) == STEPFUSE_OK);
    REQUIRE(stepfuse_step_make_args(step, &args) == STEPFUSE_OK);
    REQUIRE(stepfuse_step_run(step, gradients, 1, args, nullptr) == STEPFUSE_OK);
    long before = allocations;
    for (int i = 0; i < 100; ++i) {
      if (stepfuse_step_run(step, gradients, 1, args, nullptr) != STEPFUSE_OK) FAIL("run");
    }
    CHECK(allocations == before);
  }
  stepfuse_args_destroy(args);
  stepfuse_step_destroy(step);
}
