// Calls in any order with any arguments: an Error or the right thing, and a step that works afterwards
// as if nothing had been. Knows the public API.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr size_t kSizes[] = {5, 0, 700};
constexpr std::array<const char*, 4> kBuffers = {"weight", "exp_avg", "exp_avg_sq", "grad"};

// Three tensors and everything that is bound to them; never moves.
struct Model {
  LossScaler scaler;
  std::array<std::vector<float>, 4> arrays;
  std::vector<void*> pointers(size_t buffer) {
    std::vector<void*> out;
    size_t at = 0;
    for (size_t n : kSizes) {
      out.push_back(n == 0 ? nullptr : arrays[buffer].data() + at);
      at += n;
    }
    return out;
  }
  explicit Model(const Device& device)
      : step(make_recipe("adamw", {.loss_scale = LossScale::dynamic, .clip = Clip::l2}), layout(),
             device, {.scaler = &scaler, .stats_ring = 4, .observe = true}) {
    for (auto& a : arrays) a.assign(705, 0.0F);
  }
  static Layout layout() {
    Layout l;
    for (size_t n : kSizes) l.add({.name = "t" + std::to_string(l.size()), .elements = n});
    return l;
  }
  Step step;

  // From the beginning, as one should: what the weights are after three steps.
  std::vector<float> run_properly() {
    for (size_t b = 0; b < 3; ++b) step.bind_raw(kBuffers[b], pointers(b));
    for (size_t i = 0; i < 705; ++i) {
      arrays[0][i] = static_cast<float>(i) * 0.01F;
      arrays[3][i] = static_cast<float>(i % 7) - 3;
    }
    step.prepare();
    scaler.write("scale", 65536);
    scaler.write("growth_tracker", 0);
    step.init_state();
    Args args = step.make_args();
    try {
      // A step that was begun is gone on with: again is overwrite.
      step.observe(Tensor{0}, pointers(3), args);
      step.reduce(pointers(3), args);
    } catch (const Error&) {
    }
    for (int i = 0; i < 3; ++i) step.run(pointers(3), args);
    return arrays[0];
  }
};

double any_number(Rng& rng) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return rng.pick({0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 1e300, 3.5e38, kInf, -kInf, std::nan(""),
                   0x1p63, -0x1p63, 0x1p31});
}

std::string any_name(Rng& rng) {
  return rng.pick({"lr", "beta1", "weight", "grad", "exp_avg", "scale", "growth_tracker", "step",
                   "max_norm", "found_inf", "grad_norm", "", "no such", "t0", "sum"});
}

size_t any_index(Rng& rng) {
  return rng.pick({size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{4}, SIZE_MAX, SIZE_MAX - 1,
                   size_t{1} << 63});
}

// Good pointers, or some that must be refused: another count, null, misaligned, of another buffer.
std::vector<void*> any_pointers(Model& m, Rng& rng, size_t buffer) {
  std::vector<void*> p = m.pointers(rng.chance(80) ? buffer : rng.below(4));
  switch (rng.below(8)) {
    case 0:
      p.pop_back();
      break;
    case 1:
      p.push_back(p[0]);
      break;
    case 2:
      p[0] = nullptr;
      break;
    case 3:
      p[2] = static_cast<char*>(p[2]) + rng.between(1, 3);
      break;
    case 4:
      p[2] = p[0];
      break;
    default:
      break;
  }
  return p;
}

Member any_member(Rng& rng) {
  if (rng.chance(30)) return Tensor{any_index(rng)};
  return Group{rng.pick({0, 1, -1, INT32_MAX, INT32_MIN})};
}

void any_call(Model& m, Args& args, Rng& rng) {
  Step& s = m.step;
  size_t buffer = rng.below(4);
  std::vector<void*> gradients = any_pointers(m, rng, 3);
  size_t count = rng.below(4);
  std::span<void* const> part(gradients.data(), std::min(count, gradients.size()));
  std::vector<uint64_t> words(rng.below(64));
  std::vector<Bits> bits(rng.below(5), Bits::of(int64_t{3}));
  switch (rng.below(22)) {
    case 0:
      return s.prepare();
    case 1:
    case 2:
      return s.bind_raw(rng.chance(80) ? kBuffers[buffer] : any_name(rng),
                        any_pointers(m, rng, buffer));
    case 3:
      return s.init_state();
    case 4:
      return s.init_tensors(Tensor{any_index(rng)});
    case 5:
    case 6:
      return s.run(gradients, args);
    case 7:
      return s.run_captured(gradients);
    case 8:
      return s.set_args(args);
    case 9:
      return s.observe(Tensor{any_index(rng)}, part, args);
    case 10:
      return s.reduce(gradients, args);
    case 11:
      s.partials().at(any_name(rng));
      return;
    case 12:
      return args.set(any_name(rng), any_number(rng));
    case 13:
      return args.set(any_name(rng), any_member(rng), any_number(rng));
    case 14:
      return args.set(ArgId{rng.pick({0, 1, -1, INT32_MAX, INT32_MIN, 100})}, any_number(rng));
    case 15:
      args.get(ArgId{rng.pick({0, 1, -1, 100})}, any_member(rng));
      return;
    case 16:
      s.stats();
      s.latest();
      s.history();
      return;
    case 17:
      return s.write_state(any_name(rng), bits);
    case 18:
      s.read_state(any_name(rng));
      s.device_state(any_name(rng));
      return;
    case 19:
      return m.scaler.write(any_name(rng), any_number(rng));
    case 20:
      return s.write_args(args, words);
    default:
      s.device_arg(ArgId{rng.pick({0, 1, -1, 100})}, any_member(rng));
  }
}

}  // namespace

TEST_CASE("fuzz: the API, misused") {
  const Device devices[] = {Device::interpreter(), Device::cpu(1)};
  const size_t usable = llvm_status().available ? 2 : 1;
  std::vector<std::vector<float>> expected;
  for (size_t d = 0; d < usable; ++d) expected.push_back(Model(devices[d]).run_properly());
  fuzz(300, [&](Rng& rng) {
    size_t d = rng.below(usable);
    Model m(devices[d]);
    if (rng.chance(70)) m.run_properly();
    Args args = m.step.make_args();
    for (int i = rng.between(1, 40); i > 0; --i) {
      try {
        any_call(m, args, rng);
      } catch (const Error& e) {
        CHECK(*e.what() != 0);
      }
    }
    CHECK(m.run_properly() == expected[d]);
  });
}
