// Kernels leave the process alone: floating-point mode, memory beyond their arrays, undefined
// symbols, allocations. Also errors of a failing compilation.
#include <cstring>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <stepfuse/error.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/stepfuse.hpp>

#include "ir/program/builder.hpp"
#include "ir/semantics/fp_env.hpp"
#include "ir/semantics/interpreter.hpp"
#include "tests/support/kernel_runner.hpp"
#include "tests/support/messages.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// The sum of x * x, then x = an expression that contraction or flushed subnormals would change.
Program small_program() {
  Builder b("small");
  Value f = b.arg("f", {DType::f64, per::group});
  BufferRef x_buffer = b.buffer("x", DType::f32, Access::inout);
  BufferRef h_buffer =
      b.buffer("h", DTypeSet(DType::f16) | DType::bf16 | DType::f32, Access::inout);
  Value x = b.load(x_buffer);
  Value h = b.cast(b.load(h_buffer), DType::f32);
  Value sum = b.reduce(Op::reduce_add, x * x);
  Value bad = b.reduce(Op::reduce_any, !isfinite(h));
  Value scale = b.cast(powi(fma(f, f, f), b.constant(DType::i64, 5)), DType::f32);
  b.store(x_buffer, x * h + fma(x, h, scale), !bad);
  b.store(h_buffer, b.cast_to_buffer(h * sum, h_buffer), !bad);
  b.write(b.report("sum", sum.type()), sum);
  return b.finish();
}

// The names of the undefined symbols of an ELF object.
std::vector<std::string> undefined_symbols(const std::string& object) {
  std::vector<std::string> names;
  Elf64_Ehdr header;
  std::memcpy(&header, object.data(), sizeof(header));
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, object.data() + header.e_shoff + i * sizeof(section), sizeof(section));
    if (section.sh_type != SHT_SYMTAB) continue;
    Elf64_Shdr strings;
    std::memcpy(&strings, object.data() + header.e_shoff + section.sh_link * sizeof(strings),
                sizeof(strings));
    for (size_t at = sizeof(Elf64_Sym); at < section.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, object.data() + section.sh_offset + at, sizeof(symbol));
      if (symbol.st_shndx == SHN_UNDEF) {
        names.emplace_back(object.data() + strings.sh_offset + symbol.st_name);
      }
    }
  }
  return names;
}

// An array directly before or behind a page that must not be touched.
class FencedArray {
 public:
  FencedArray(size_t bytes, bool at_end) {
    page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    inner_ = (bytes + page_ - 1) / page_ * page_;
    base_ = static_cast<char*>(
        mmap(nullptr, inner_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + page_, inner_, PROT_READ | PROT_WRITE);
    data_ = at_end ? base_ + page_ + inner_ - bytes : base_ + page_;
  }
  ~FencedArray() { munmap(base_, inner_ + 2 * page_); }
  FencedArray(const FencedArray&) = delete;
  FencedArray& operator=(const FencedArray&) = delete;
  void* data() const { return data_; }

 private:
  size_t page_, inner_;
  char* base_;
  char* data_;
};

// Values that are rounded in each part of a kernel: per step, group and tensor, per element, in
// folds, between phases, and after the last one.
constexpr const char* kRoundsEverywhere = R"(step @rounds {
  buffer @x : f32 inout
  buffer @h : f16|bf16|f32 inout
  arg %third : f64
  arg %rate : {f64}
  report @shares : {f32}
  report @mean : f64
  report @sum : f32
  %x = load @x : [f32]
  %ninth = mul %third, %third : f64
  %factor = cast %ninth : f32
  %square = mul %rate, %rate : {f64}
  %gain = cast %square : {f32}
  %scaled = mul %x, %factor : [f32]
  %sums = reduce_add %scaled : <f32>
  %share = div %sums, %factor : <f32>
  %shares = reduce_add %share : {f32}
  %total = reduce_add %shares : f32
  %h = load @h : [@h]
  %h32 = cast %h : [f32]
  %part = fma %x, %gain, %h32 : [f32]
  %by = div %part, %total : [f32]
  store @x, %by
  %low = cast %part : [@h]
  store @h, %low
  %wide = cast %total : f64
  %mean = mul %wide, %third : f64
  write @shares, %shares
  write @mean, %mean
  write @sum, %total
}
)";

TestData small_input(const Program& p, Inputs inputs) {
  TestLayout layout;
  for (DType t : {DType::f16, DType::bf16, DType::f32}) layout.add({.size = 5000}, {DType::f32, t});
  return TestData(p, layout, 11, inputs);
}

}  // namespace

TEST_CASE("no object has an undefined symbol") {
  Program p = small_program();
  TestData input = small_input(p, Inputs::normal);
  for (const std::string& level : runnable_cpu_levels()) {
    for (Form form : {Form::fused, Form::unfused}) {
      KernelRunner runner(p, input.step(), {.form = form, .level = level});
      CHECK(undefined_symbols(runner.object().bytes) == std::vector<std::string>{});
    }
  }
}

#if defined(__x86_64__)
TEST_CASE("the caller's floating-point mode changes nothing, and is restored") {
  constexpr unsigned kFlush = 0x8040, kMasked = 0x1f80;
  Program small = small_program(), places = parse(kRoundsEverywhere);
  for (const Program* p : {&small, &places}) {
    for (Inputs inputs : {Inputs::normal, Inputs::special}) {
      TestData input = small_input(*p, inputs);
      TestData expected(input);
      interpret(*p, expected.step());
      KernelRunner runner(*p, input.step());
      for (unsigned mode : {0x2000U, 0x4000U, 0x6000U, kFlush, kFlush | 0x4000U}) {
        for (int threads : {1, 2}) {
          TestData actual(input);
          unsigned before = _mm_getcsr();
          _mm_setcsr(mode | kMasked);
          runner.run(actual.step(), CpuExecutor(threads));
          unsigned after = _mm_getcsr();
          _mm_setcsr(before);
          CHECK((after & ~0x3fU) == (mode | kMasked));
          CHECK(difference(*p, expected, actual).value_or("") == "");
        }
      }
    }
  }
}

TEST_CASE("the caller's floating-point mode changes nothing between the phases either") {
  Layout layout;
  for (int t = 0; t < 3; ++t) {
    layout.add({.elements = 5000, .dtypes = {{"h", DType::f16}}});
  }
  Program p = parse(kRoundsEverywhere);
  auto results = [&](unsigned mode) {
    std::vector<std::vector<float>> x(3, std::vector<float>(5000));
    std::vector<std::vector<uint16_t>> h(3, std::vector<uint16_t>(5000, 0x3c01));
    std::vector<float*> xs;
    std::vector<uint16_t*> hs;
    for (size_t t = 0; t < 3; ++t) {
      for (size_t i = 0; i < 5000; ++i) x[t][i] = 1 + 0x1p-20F * static_cast<float>(i * i % 9001);
      xs.push_back(x[t].data());
      hs.push_back(h[t].data());
    }
    Step step(p, layout, Device::cpu(1), {.gradient = "", .observe = true});
    step.prepare();
    step.bind_raw("x", xs);
    step.bind_raw("h", hs);
    Args args = step.make_args();
    args.set("third", 1.0 / 3);
    args.set("rate", 0.1);
    unsigned before = _mm_getcsr();
    _mm_setcsr(mode | 0x1f80);
    step.reduce({}, args);
    step.run({}, args);
    _mm_setcsr(before);
    StepStats stats = *step.latest();
    return std::pair(x, std::pair(stats.values, stats.lists));
  };
  auto nearest = results(0);
  for (unsigned mode : {0x2000U, 0x4000U, 0x6000U}) CHECK(results(mode) == nearest);
}
#endif

TEST_CASE("multiplication and addition are not contracted") {
  Builder b("contract");
  BufferRef x_buffer = b.buffer("x", DType::f32, Access::inout);
  Value x = b.load(x_buffer);
  b.store(x_buffer, x * x - b.cast(b.constant(DType::f32, 1), DType::f32));
  Program p = b.finish();
  float value = 1.0F + 0x1p-12F;
  std::vector<float> values(100, value);
  StepData data;
  data.tensors = {{.size = 100, .data = {values.data()}, .dtypes = {DType::f32}}};
  for (const std::string& level : runnable_cpu_levels()) {
    std::fill(values.begin(), values.end(), value);
    KernelRunner(p, data, {.level = level}).run(data, CpuExecutor(1));
    CHECK(values[0] == 0x1p-11F);  // a fused operation would keep 2^-24 as well
    CHECK(values[99] == 0x1p-11F);
  }
}

TEST_CASE("nothing outside the arrays is read or written") {
  Program p = small_program();
  for (const std::string& level : runnable_cpu_levels()) {
    std::unique_ptr<KernelRunner> runner;
    for (uint64_t n : {1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 65, 2047, 2049, 16383, 16385}) {
      for (bool at_end : {true, false}) {
        FencedArray x(n * 4, at_end);
        FencedArray h(n * 2, at_end);
        StepData data;
        data.args = {{Bits::of(0.5)}};
        data.states = {{Bits::of(0.0F)}};
        data.tensors = {
            {.size = n, .data = {x.data(), h.data()}, .dtypes = {DType::f32, DType::f16}}};
        if (!runner)
          runner = std::make_unique<KernelRunner>(p, data, RunnerOptions{.level = level});
        runner->run(data, CpuExecutor(1));
        CHECK(data.states[0][0].f32() == 0.0F);
      }
    }
  }
}

TEST_CASE("text that LLVM refuses is an error that shows where") {
  CpuTarget target = cpu_target("host");
  try {
    compile_cpu("define void @f() {\n  ret i32 1\n}\n", target);
    FAIL("compiled");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::compile);
    CHECK(std::string(e.what()).find("kernel.ll:2:") != std::string::npos);
  }
  CHECK_THROWS_AS(cpu_target("x86-64-v9"), Error);
}

TEST_CASE("a level that this processor has not is refused, not run") {
  std::vector<std::string> runnable = runnable_cpu_levels();
  for (const std::string& level : runnable) require_runnable(level);
  CHECK(has(message_of(ErrorKind::usage, [] { require_runnable("x86-64-v9"); }), "unknown"));
#if defined(__x86_64__)
  if (runnable.back() == "x86-64-v4") return;
  std::string refused = message_of(ErrorKind::device, [] { require_runnable("x86-64-v4"); });
  CHECK(has(refused, "cannot run level 'x86-64-v4'; it runs host, x86-64"));
#endif
}

TEST_CASE("bytes that are no object are refused") {
  Program p = small_program();
  TestData input = small_input(p, Inputs::normal);
  KernelRunner runner(p, input.step());
  CHECK_THROWS_AS(CpuKernel::load("not an object", runner.variant().plan), Error);
  std::string cut = runner.object().bytes.substr(0, 100);
  CHECK_THROWS_AS(CpuKernel::load(cut, runner.variant().plan), Error);
}
