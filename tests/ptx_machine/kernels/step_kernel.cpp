// The host's side of the step kernel: data, reference, upload and launch.
#include "tests/ptx_machine/kernels/step_kernel.hpp"

#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include <doctest/doctest.h>

#include "runtime/cuda/nvrtc.hpp"
#include "tools/ptx_machine/semantics/convert.hpp"

namespace ptx::step {
namespace {

struct DeviceChunk {
  u32 tensor, length;
  u64 begin;
};
struct DeviceTensor {
  u64 grad, master, exp_avg, weight;
  u32 dtype, present;
};
struct Context {
  u64 chunks, tensors, slots, nonfinite, scalars, state, arrived, generation, finished;
  u32 chunk_count;
  float max_norm;
  double lr, beta;
};
static_assert(sizeof(Context) == 96);

float rounded_to(float value, u32 dtype) {
  if (dtype == 1) return from_f16(to_f16(value));
  if (dtype == 2) return from_bf16(to_bf16(value));
  return value;
}

std::vector<DeviceChunk> chunks_of(const Data& data) {
  std::vector<DeviceChunk> chunks;
  for (u32 t = 0; t < data.tensors.size(); ++t) {
    u64 first = data.tensors[t].shape.first_element;
    for (u64 at = 0; at < data.tensors[t].grad.size(); at += kPiece) {
      u64 length = std::min<u64>(kPiece, data.tensors[t].grad.size() - at);
      chunks.push_back({t, static_cast<u32>(length), first + at});
    }
  }
  return chunks;
}

float fold(std::vector<float> lanes) {
  for (std::size_t d = lanes.size() / 2; d >= 1; d /= 2) {
    for (std::size_t l = 0; l < d; ++l) lanes[l] = lanes[l] + lanes[l + d];
  }
  return lanes[0];
}

double power(double base, u64 n) {
  double r = 1;
  while (n != 0) {
    if ((n & 1) != 0) r = r * base;
    n >>= 1;
    if (n != 0) base = base * base;
  }
  return r;
}

// One buffer of the device: `before` elements in front of it are never touched.
template <class T>
u64 upload(Memory& memory, const std::vector<T>& values, u32 misalign, u64 before = 0,
           const char* name = "") {
  u64 base = memory.allocate((before + values.size()) * sizeof(T) + misalign, name) + misalign;
  memory.write(base + before * sizeof(T), values.data(), values.size() * sizeof(T));
  return base;
}

template <class T>
void download(Memory& memory, std::vector<T>& values, u64 base, u64 before = 0) {
  memory.read(values.data(), base + before * sizeof(T), values.size() * sizeof(T));
}

u64 upload_grad(Memory& memory, const Data::Tensor& tensor, u32 misalign) {
  u64 before = tensor.shape.first_element;
  if (tensor.shape.dtype == 0) return upload(memory, tensor.grad, misalign, before);
  std::vector<u16> bits;
  for (float g : tensor.grad) bits.push_back(tensor.shape.dtype == 1 ? to_f16(g) : to_bf16(g));
  return upload(memory, bits, misalign, before);
}

}  // namespace

bool Data::Tensor::operator==(const Tensor& o) const {
  auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
      return std::bit_cast<u32>(x) == std::bit_cast<u32>(y) || (x != x && y != y);
    });
  };
  return same(master, o.master) && same(exp_avg, o.exp_avg) && weight == o.weight;
}

Data make_data(const std::vector<TensorShape>& shapes, u64 seed) {
  Random random(seed);
  auto value = [&] { return (static_cast<float>(random.below(20001)) - 10000.0f) / 4096.0f; };
  Data data;
  for (const TensorShape& shape : shapes) {
    Data::Tensor t{.shape = shape};
    for (u64 i = 0; i < shape.size; ++i) {
      t.grad.push_back(rounded_to(value(), shape.dtype));
      t.master.push_back(value());
      t.exp_avg.push_back(value());
      t.weight.push_back(0x1234);
    }
    data.tensors.push_back(std::move(t));
  }
  return data;
}

void reference_step(Data& data) {
  std::vector<float> total(kLanes, 0.0f);
  bool bad = false;
  std::size_t slot = 0;
  for (const DeviceChunk& chunk : chunks_of(data)) {
    const Data::Tensor& t = data.tensors[chunk.tensor];
    std::vector<float> lanes(kLanes, 0.0f);
    for (u32 i = 0; i < chunk.length && t.shape.present; ++i) {
      float g = t.grad[chunk.begin - t.shape.first_element + i];
      bad = bad || !std::isfinite(g);
      lanes[i % kLanes] = lanes[i % kLanes] + g * g;
    }
    total[slot % kLanes] = total[slot % kLanes] + fold(std::move(lanes));
    ++slot;
  }
  float coef = data.max_norm / (std::sqrt(fold(std::move(total))) + 1e-6f);
  coef = coef < 1.0f ? coef : 1.0f;
  if (bad) return;
  auto size =
      static_cast<float>(data.lr / (1.0 - power(data.beta, static_cast<u64>(data.steps + 1))));
  for (Data::Tensor& t : data.tensors) {
    for (std::size_t i = 0; i < t.grad.size() && t.shape.present; ++i) {
      float g = t.grad[i] * coef;
      float m = std::fma(static_cast<float>(data.beta), t.exp_avg[i],
                         static_cast<float>(1.0 - data.beta) * g);
      t.exp_avg[i] = m;
      t.master[i] = t.master[i] - size * (m / (std::fabs(m) + 1e-3f));
      t.weight[i] = to_f16(t.master[i]);
    }
  }
  data.steps += 1;
}

Counters run_step(const std::string& ptx, Data& data, const RunOptions& options) {
  Machine machine;
  auto module = machine.load(ptx);
  Memory& memory = machine.memory();
  std::vector<DeviceTensor> tensors;
  for (const Data::Tensor& t : data.tensors) {
    u64 before = t.shape.first_element;
    tensors.push_back({upload_grad(memory, t, options.misalign),
                       upload(memory, t.master, options.misalign, before),
                       upload(memory, t.exp_avg, options.misalign, before),
                       upload(memory, t.weight, options.misalign, before), t.shape.dtype,
                       t.shape.present ? 1u : 0u});
  }
  auto chunks = chunks_of(data);
  auto word = [&](u32 value, const char* name) {
    return upload(memory, std::vector<u32>{value}, 0, 0, name);
  };
  std::vector<double> state{data.steps};
  u64 slots = memory.allocate(4 * chunks.size(), "the slots");
  u64 scalars = memory.allocate(8, "the scalars");
  if (options.zero_workspace) {
    memory.fill(slots, chunks.size(), 0, 4);
    memory.fill(scalars, 2, 0, 4);
  }
  Context context{.chunks = upload(memory, chunks, 0, 0, "the chunks"),
                  .tensors = upload(memory, tensors, 0, 0, "the tensors"),
                  .slots = slots,
                  .nonfinite = word(0, "the nonfinite flag"),
                  .scalars = scalars,
                  .state = upload(memory, state, 0, 0, "the state"),
                  .arrived = word(0, "the arrived word"),
                  .generation = word(7, "the generation"),
                  .finished = word(0, "the finishing word"),
                  .chunk_count = static_cast<u32>(chunks.size()),
                  .max_norm = data.max_norm,
                  .lr = data.lr,
                  .beta = data.beta};
  Counters counters = machine.launch(
      *module->find("step"),
      {.grid = {options.blocks}, .block = {kThreads}, .cooperative = options.cooperative},
      std::as_bytes(std::span(&context, 1)),
      {.seed = options.seed,
       .step_limit = options.step_limit,
       .checks = options.checks,
       .incoherent = options.incoherent});
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    Data::Tensor& t = data.tensors[k];
    download(memory, t.master, tensors[k].master, t.shape.first_element);
    download(memory, t.exp_avg, tensors[k].exp_avg, t.shape.first_element);
    download(memory, t.weight, tensors[k].weight, t.shape.first_element);
  }
  download(memory, state, context.state);
  data.steps = state[0];
  return counters;
}

std::string step_ptx(int arch, const std::vector<Edit>& edits) {
  std::ifstream file(std::string(STEPFUSE_PTX_KERNELS) + "/step.cu");
  std::stringstream stream;
  stream << file.rdbuf();
  std::string text = stream.str();
  REQUIRE(!text.empty());
  for (const Edit& edit : edits) {
    std::size_t at = text.find(edit.from);
    REQUIRE_MESSAGE(at != std::string::npos, edit.from);
    text.replace(at, edit.from.size(), edit.to);
  }
  static std::map<std::pair<int, std::string>, std::string> compiled;
  std::string& ptx = compiled[{arch, text}];
  if (ptx.empty()) {
    ptx = stepfuse::cuda::nvrtc_compile(
              {.text = text, .name = "step", .arch = arch, .kind = stepfuse::cuda::CodeKind::ptx})
              .code;
  }
  return ptx;
}

}  // namespace ptx::step
