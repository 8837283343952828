// The XLA FFI handlers of the CPU and of CUDA: a step in place, its first phase, and the initial state. Knows XLA's
// header-only API.
#include <exception>
#include <optional>
#include <xla/ffi/api/ffi.h>

#include "python/jax/definition.hpp"

namespace stepfuse_jax {
namespace {

namespace ffi = xla::ffi;

stepfuse_dtype to_dtype(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::PRED:
      return STEPFUSE_BOOL;
    case ffi::DataType::S8:
      return STEPFUSE_I8;
    case ffi::DataType::U8:
      return STEPFUSE_U8;
    case ffi::DataType::S16:
      return STEPFUSE_I16;
    case ffi::DataType::S32:
      return STEPFUSE_I32;
    case ffi::DataType::F16:
      return STEPFUSE_F16;
    case ffi::DataType::BF16:
      return STEPFUSE_BF16;
    case ffi::DataType::F32:
      return STEPFUSE_F32;
    case ffi::DataType::F64:
      return STEPFUSE_F64;
    case ffi::DataType::F8E4M3FN:
      return STEPFUSE_F8_E4M3;
    case ffi::DataType::F8E5M2:
      return STEPFUSE_F8_E5M2;
    default:
      return -1;
  }
}

Array to_array(const ffi::AnyBuffer& buffer) {
  ffi::AnyBuffer::Dimensions dims = buffer.dimensions();
  return {buffer.untyped_data(), to_dtype(buffer.element_type()), {dims.begin(), dims.size()}};
}

std::vector<Array> read_operands(ffi::RemainingArgs operands) {
  std::vector<Array> arrays;
  arrays.reserve(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    auto buffer = operands.get<ffi::AnyBuffer>(i);
    if (!buffer.has_value()) throw Failure("an operand is not a buffer");
    arrays.push_back(to_array(*buffer));
  }
  return arrays;
}

std::vector<Array> read_results(ffi::RemainingRets results) {
  std::vector<Array> arrays;
  arrays.reserve(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    auto buffer = results.get<ffi::AnyBuffer>(i);
    if (!buffer.has_value()) throw Failure("a result is not a buffer");
    arrays.push_back(to_array(**buffer));
  }
  return arrays;
}

// The arrays of a call by kind, taken from the front.
class Front {
 public:
  explicit Front(std::span<const Array> arrays) : rest_(arrays) {}
  std::span<const Array> take(size_t count) {
    if (count > rest_.size()) {
      throw Failure(
          "the call has fewer arrays than its program needs, so a different version of stepfuse "
          "made it; export it again");
    }
    std::span<const Array> taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

 private:
  std::span<const Array> rest_;
};

void append(std::vector<Array>& to, std::span<const Array> arrays) {
  to.insert(to.end(), arrays.begin(), arrays.end());
}

struct Call {
  std::shared_ptr<Definition> definition;
  Arrays arrays;
};

// Operands: numbers, the device's index if there is an axis, all devices' pieces if `has_pieces`, weights,
// gradients, states, other arrays.
Call read_call(const Attributes& attributes, const Memory& memory, std::span<const Array> operands,
               bool has_pieces) {
  Front in(operands);
  Call call;
  call.arrays.memory = memory;
  size_t tensors = attributes.groups.size();
  call.arrays.numbers = in.take(1)[0];
  if (attributes.devices != 0) {
    if (memory.is_cuda()) {
      throw Failure(
          "specs: shards of parameters are stepped on the CPU only; keep the parameters whole on "
          "each GPU, and average the gradients with jax.lax.pmean()");
    }
    call.arrays.index = *static_cast<const int32_t*>(in.take(1)[0].data);
  }
  if (has_pieces) call.arrays.all_pieces = in.take(1)[0];
  std::span<const Array> weights = in.take(tensors);
  call.arrays.gradients = in.take(tensors);
  call.definition = find_definition(attributes, call.arrays.index, weights, call.arrays.gradients);
  append(call.arrays.arrays, weights);
  call.arrays.values = in.take(call.definition->state_count());
  append(call.arrays.arrays, in.take(call.definition->array_count() - tensors));
  return call;
}

// Results: weights, states, other arrays, in the operands' memory.
void step(const Attributes& attributes, const Memory& memory, std::span<const Array> operands,
          std::span<const Array> results) {
  Call call = read_call(attributes, memory, operands, !attributes.exchanged.empty());
  Front out(results);
  size_t tensors = attributes.groups.size();
  std::vector<Array> written;
  append(written, out.take(tensors));
  call.arrays.new_values = out.take(call.definition->state_count());
  append(written, out.take(call.definition->array_count() - tensors));
  for (size_t i = 0; i < written.size(); ++i) {
    if (written[i].data != call.arrays.arrays[i].data) {
      throw Failure(
          "XLA gave an array and its new value different memory; the step works in place");
    }
  }
  call.definition->step(attributes, call.arrays);
}

// Result: what each piece of the gradients leaves for the exchanged reductions.
void reduce(const Attributes& attributes, const Memory& memory, std::span<const Array> operands,
            std::span<const Array> results) {
  Call call = read_call(attributes, memory, operands, false);
  call.arrays.own_pieces = Front(results).take(1)[0];
  call.definition->reduce(attributes, call.arrays);
}

// Operands: weights. Results: states, other arrays.
void init(const Attributes& attributes, const Memory& memory, std::span<const Array> operands,
          std::span<const Array> results) {
  Front in(operands), out(results);
  Arrays call;
  call.memory = memory;
  std::span<const Array> weights = in.take(attributes.groups.size());
  auto definition = find_definition(attributes, 0, weights, weights);
  call.new_values = out.take(definition->state_count());
  append(call.arrays, weights);
  append(call.arrays, out.take(definition->array_count() - weights.size()));
  definition->init(attributes, call);
}

Memory find_memory(const Attributes& attributes, const std::optional<void*>& stream) {
  if (!stream.has_value()) return {};
  if (attributes.device != STEPFUSE_CPU) {
    throw Failure(
        "device: the interpreter takes arrays on the CPU; move them there with jax.device_put(), "
        "or leave out the argument");
  }
  return Memory::on_cuda(*stream);
}

// `stream` is XLA's on a CUDA device.
template <auto body>
ffi::Error call(std::optional<void*> stream, std::string_view key, std::string_view text,
                std::string_view names, ffi::Span<const int32_t> groups,
                ffi::Span<const int32_t> set_args, ffi::Span<const double> set_values,
                ffi::Span<const int32_t> dynamic, int32_t devices, ffi::Span<const int32_t> sharded,
                std::string_view exchanged, double init_scale, int32_t device, int32_t threads,
                ffi::RemainingArgs operands, ffi::RemainingRets results) {
  try {
    Attributes attributes{.key = key,
                          .text = text,
                          .names = names,
                          .groups = {groups.begin(), groups.size()},
                          .set_args = {set_args.begin(), set_args.size()},
                          .set_values = {set_values.begin(), set_values.size()},
                          .dynamic = {dynamic.begin(), dynamic.size()},
                          .devices = devices,
                          .sharded = {sharded.begin(), sharded.size()},
                          .exchanged = exchanged,
                          .init_scale = init_scale,
                          .device = device,
                          .threads = threads};
    body(attributes, find_memory(attributes, stream), read_operands(operands),
         read_results(results));
    return ffi::Error::Success();
  } catch (const std::exception& e) {
    return {ffi::ErrorCode::kInvalidArgument, std::string("stepfuse: ") + e.what()};
  }
}

template <auto body>
constexpr auto on_host = [](auto... fields) { return call<body>(std::nullopt, fields...); };
template <auto body>
constexpr auto on_cuda = [](void* stream, auto... fields) { return call<body>(stream, fields...); };

template <class Binding>
auto bind(Binding binding) {
  return std::move(binding)
      .template Attr<std::string_view>("key")
      .template Attr<std::string_view>("text")
      .template Attr<std::string_view>("names")
      .template Attr<ffi::Span<const int32_t>>("groups")
      .template Attr<ffi::Span<const int32_t>>("set_args")
      .template Attr<ffi::Span<const double>>("set_values")
      .template Attr<ffi::Span<const int32_t>>("dynamic")
      .template Attr<int32_t>("devices")
      .template Attr<ffi::Span<const int32_t>>("sharded")
      .template Attr<std::string_view>("exchanged")
      .template Attr<double>("init_scale")
      .template Attr<int32_t>("device")
      .template Attr<int32_t>("threads")
      .RemainingArgs()
      .RemainingRets();
}

auto host_binding() { return bind(ffi::Ffi::Bind()); }
// Without the trait for command buffers: a graph would keep the addresses of its first run.
auto cuda_binding() { return bind(ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void*>>()); }

}  // namespace

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(stepfuse_jax_step, on_host<step>, host_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(stepfuse_jax_reduce, on_host<reduce>, host_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(stepfuse_jax_init, on_host<init>, host_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(stepfuse_jax_step_cuda, on_cuda<step>, cuda_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(stepfuse_jax_reduce_cuda, on_cuda<reduce>, cuda_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(stepfuse_jax_init_cuda, on_cuda<init>, cuda_binding());
#pragma GCC visibility pop

}  // namespace stepfuse_jax
