// Binds a step to XLA's buffers, moves its states in and out, and runs it. Knows the C API.
#include "python/jax/instance.hpp"

#include <algorithm>
#include <cstring>

#include <stepfuse/stepfuse.h>

namespace stepfuse_jax {
namespace {

constexpr size_t kWord = 8;  // bytes of a number in a call

// A number of type T from the first bytes of a word.
template <class T>
double read_as(const void* word) {
  T value;
  std::memcpy(&value, word, sizeof(T));
  return static_cast<double>(value);
}

double read_number(stepfuse_dtype dtype, const void* word) {
  switch (dtype) {
    case STEPFUSE_F64:
      return read_as<double>(word);
    case STEPFUSE_F32:
      return read_as<float>(word);
    case STEPFUSE_I32:
      return read_as<int32_t>(word);
    case STEPFUSE_BOOL:
      return read_as<uint8_t>(word);
    default:
      throw Failure(std::string("an array cannot set an argument of type ") +
                    stepfuse_dtype_name(dtype));
  }
}

}  // namespace

Instance::Instance(const Definition& definition, const Attributes& attributes, const Memory& memory)
    : definition_(definition), memory_(memory) {
  const stepfuse_program* program = definition.program_.get();
  bool shared = false;
  for (size_t s = 0; s < definition.states_.size(); ++s) {
    stepfuse_state state = STEPFUSE_STATE;
    check(stepfuse_program_state(program, s, &state));
    shared = shared || state.is_shared != 0;
  }
  stepfuse_step_options options = STEPFUSE_STEP_OPTIONS;
  if (shared) {
    stepfuse_scaler_options scaling = STEPFUSE_SCALER_OPTIONS;
    scaling.init_scale = attributes.init_scale;
    stepfuse_scaler* scaler = nullptr;
    check(stepfuse_scaler_create(&scaling, &scaler));
    scaler_.reset(scaler);
    options.scaler = scaler;
  }
  options.observe = definition.exchanged_.empty() ? 0 : 1;
  stepfuse_device device = STEPFUSE_DEVICE;
  device.kind = memory.is_cuda() ? STEPFUSE_CUDA : attributes.device;
  device.ordinal = memory.ordinal();
  device.threads = attributes.threads;
  stepfuse_step* step = nullptr;
  check(stepfuse_step_create(program, definition.layout_.get(), &device, &options, &step));
  step_.reset(step);
  check(stepfuse_step_prepare(step));
  check(stepfuse_step_adopt_state(step));
  stepfuse_args* args = nullptr;
  check(stepfuse_step_make_args(step, &args));
  args_.reset(args);
  for (size_t a = 0; a < stepfuse_program_arg_count(program); ++a) {
    stepfuse_arg arg = STEPFUSE_ARG;
    check(stepfuse_program_arg(program, a, &arg));
    arguments_.push_back({arg.dtype, arg.granularity == STEPFUSE_PER_GROUP});
  }
  for (size_t i = 0; i < attributes.set_values.size(); ++i) {
    set(attributes.set_args.subspan(2 * i, 2), attributes.set_values[i]);
  }
  for (const Definition::State& state : definition.states_) {
    StateArray place;
    size_t count = 0;
    check(stepfuse_step_device_state(step, state.name.c_str(), &place.address));
    check(stepfuse_step_read_state(step, state.name.c_str(), nullptr, 0, &count, nullptr));
    place.bytes = count * stepfuse_dtype_size(state.dtype);
    states_.push_back(place);
  }
  gradients_.resize(definition.tensor_count());
}

// Copies out of the step's memory may still wait in the stream.
Instance::~Instance() { memory_.wait(); }

void Instance::set(std::span<const int32_t> target, double value) {
  int32_t arg = target[0], group = target[1];
  bool one = group >= 0 && arguments_.at(static_cast<size_t>(arg)).per_group;
  check(one ? stepfuse_args_set_member(args_.get(), arg, group, value)
            : stepfuse_args_set(args_.get(), arg, value));
}

void Instance::set_numbers(const Attributes& attributes, const Array& numbers) {
  if (numbers.elements() < attributes.dynamic.size()) {
    throw Failure("the call has fewer numbers than it sets");
  }
  if (memory_.is_cuda()) return set_numbers_on_device(attributes, numbers);
  for (size_t i = 0; i < attributes.dynamic.size() / 2; ++i) {
    std::span<const int32_t> target = attributes.dynamic.subspan(2 * i, 2);
    stepfuse_dtype dtype = arguments_.at(static_cast<size_t>(target[0])).dtype;
    set(target, read_number(dtype, static_cast<const char*>(numbers.data) + kWord * i));
  }
}

// The host never sees these numbers: they are copied into the step's own block of arguments, and nothing waits.
void Instance::set_numbers_on_device(const Attributes& attributes, const Array& numbers) {
  if (!args_on_device_) {
    check(stepfuse_step_set_args(step_.get(), args_.get(), memory_.stream()));
    args_on_device_ = true;
  }
  auto groups = static_cast<int32_t>(stepfuse_layout_group_count(definition_.layout_.get()));
  for (size_t i = 0; i < attributes.dynamic.size() / 2; ++i) {
    int32_t arg = attributes.dynamic[2 * i], group = attributes.dynamic[2 * i + 1];
    const Argument& argument = arguments_.at(static_cast<size_t>(arg));
    bool all = argument.per_group && group < 0;
    int32_t first = all || !argument.per_group ? 0 : group;
    for (int32_t member = first; member < (all ? groups : first + 1); ++member) {
      void* address = nullptr;
      check(stepfuse_step_device_arg(step_.get(), arg, member, &address));
      memory_.copy(address, static_cast<const char*>(numbers.data) + kWord * i,
                   stepfuse_dtype_size(argument.dtype));
    }
  }
}

// Addresses stay what they are from call to call where the caller donates, so this mostly compares.
void Instance::bind(const Arrays& call) {
  size_t at = 0;
  bound_.resize(call.arrays.size(), nullptr);
  bool first = buffer_.empty();
  buffer_.resize(definition_.tensor_count());
  for (const Definition::Buffer& buffer : definition_.buffers_) {
    std::span<const Array> arrays(call.arrays.data() + at, buffer.tensors.size());
    std::span<void*> bound(bound_.data() + at, arrays.size());
    at += arrays.size();
    bool same = std::equal(arrays.begin(), arrays.end(), bound.begin(),
                           [](const Array& a, void* b) { return a.data == b; });
    if (same && !first) continue;
    reduced_ = false;
    std::fill(buffer_.begin(), buffer_.end(), nullptr);
    for (size_t i = 0; i < arrays.size(); ++i) {
      size_t tensor = buffer.tensors[i];
      if (definition_.sizes_[tensor] != 0) buffer_[tensor] = arrays[i].data;
    }
    check(stepfuse_step_bind(step_.get(), buffer.name.c_str(), buffer_.data(), buffer_.size()));
    for (size_t i = 0; i < arrays.size(); ++i) bound[i] = arrays[i].data;
  }
}

void Instance::read_values(const Arrays& call) {
  for (size_t s = 0; s < states_.size(); ++s) {
    memory_.copy(states_[s].address, call.values[s].data, states_[s].bytes);
  }
}

void Instance::write_values(const Arrays& call) const {
  for (size_t s = 0; s < states_.size(); ++s) {
    memory_.copy(call.new_values[s].data, states_[s].address, states_[s].bytes);
  }
}

void Instance::load(const Attributes& attributes, const Arrays& call) {
  bind(call);
  read_values(call);
  set_numbers(attributes, call.numbers);
  for (size_t t = 0; t < gradients_.size(); ++t) {
    reduced_ = reduced_ && gradients_[t] == call.gradients[t].data;
    gradients_[t] = call.gradients[t].data;
  }
}

// Leaves the results of the gradients' pieces, which stay until the rest of the first phase runs.
void Instance::observe() {
  check(stepfuse_step_observe(step_.get(), 0, gradients_.data(), gradients_.size(), args_.get(),
                              nullptr));
}

template <class Use>
void Instance::for_each_exchanged(Use&& use) const {
  void* block = nullptr;
  size_t bytes = 0, count = 0, found = 0;
  check(stepfuse_step_partials(step_.get(), &block, &bytes, &count));
  for (size_t i = 0; i < count; ++i) {
    stepfuse_partial partial = STEPFUSE_PARTIAL;
    check(stepfuse_step_partial(step_.get(), i, &partial));
    const std::vector<std::string>& names = definition_.exchanged_;
    auto name = std::find(names.begin(), names.end(), partial.full_name);
    if (name == names.end()) continue;
    if (partial.piece_count != definition_.pieces_.size()) {
      throw Failure("the pieces of '" + *name + "' are not those of its parameters");
    }
    ++found;
    use(i, partial, static_cast<size_t>(name - names.begin()));
  }
  if (found != definition_.exchanged_.size()) {
    throw Failure(
        "a formula reduces over all elements after the norm, which devices do not exchange; keep "
        "the parameters whole");
  }
}

void Instance::reduce(const Attributes& attributes, const Arrays& call) {
  load(attributes, call);
  observe();
  auto* out = static_cast<uint32_t*>(call.own_pieces.data);
  size_t all = definition_.all_pieces_;
  std::fill_n(out, definition_.exchanged_.size() * all, 0);
  for_each_exchanged([&](size_t, const stepfuse_partial& partial, size_t number) {
    size_t size = stepfuse_dtype_size(partial.dtype);
    for (size_t i = 0; i < partial.piece_count; ++i) {
      size_t place = definition_.pieces_[i];
      if (place == Definition::kOthers) continue;
      std::memcpy(&out[number * all + place], static_cast<const char*>(partial.pieces) + i * size,
                  size);
    }
  });
  check(stepfuse_step_reduce(step_.get(), gradients_.data(), gradients_.size(), args_.get(),
                             nullptr));
  reduced_ = true;
}

// Makes the reductions of all devices' pieces those of the step.
void Instance::fold(const Array& all_pieces) {
  size_t all = definition_.all_pieces_;
  std::vector<char> packed;
  for_each_exchanged([&](size_t index, const stepfuse_partial& partial, size_t number) {
    size_t size = stepfuse_dtype_size(partial.dtype);
    packed.resize(all * size);
    const auto* words = static_cast<const uint32_t*>(all_pieces.data) + number * all;
    for (size_t i = 0; i < all; ++i) std::memcpy(&packed[i * size], &words[i], size);
    check(stepfuse_step_fold_pieces(step_.get(), index, packed.data(), all));
  });
}

void Instance::step(const Attributes& attributes, const Arrays& call) {
  load(attributes, call);
  if (!definition_.exchanged_.empty()) {
    // XLA has copied the arrays since reduce(), if they were not donated.
    if (!reduced_) {
      observe();
      check(stepfuse_step_reduce(step_.get(), gradients_.data(), gradients_.size(), args_.get(),
                                 nullptr));
    }
    fold(call.all_pieces);
    reduced_ = false;
  }
  check(stepfuse_step_run(step_.get(), gradients_.data(), gradients_.size(), run_args(),
                          memory_.stream()));
  write_values(call);
}

void Instance::init(const Arrays& call) {
  bind(call);
  size_t at = 0;
  for (const Definition::Buffer& buffer : definition_.buffers_) {
    for (size_t i = 0; i < buffer.tensors.size(); ++i, ++at) {
      const Array& array = call.arrays[at];
      if (buffer.initialised || buffer.name == "weight" || array.elements() == 0) continue;
      memory_.zero(array.data, array.elements() * stepfuse_dtype_size(array.dtype));
    }
  }
  check(stepfuse_step_init_state(step_.get(), memory_.stream()));
  write_values(call);
}

}  // namespace stepfuse_jax
