// Binds a step to XLA's buffers, moves its states in and out, and runs it. Knows the C API.
#include "python/jax/instance.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include <stepfuse/stepfuse.h>

namespace stepfuse_jax {
namespace {

// JAX has no 64-bit integers unless it is told to, so counts are 32-bit there.
void widen(const Array& from, void* to, size_t count) {
  const auto* in = static_cast<const int32_t*>(from.data);
  std::copy_n(in, count, static_cast<int64_t*>(to));
}

void narrow(const std::string& name, const void* from, const Array& to, size_t count) {
  const auto* in = static_cast<const int64_t*>(from);
  auto* out = static_cast<int32_t*>(to.data);
  for (size_t i = 0; i < count; ++i) {
    if (in[i] > std::numeric_limits<int32_t>::max() ||
        in[i] < std::numeric_limits<int32_t>::min()) {
      throw Failure("state '" + name + "' is " + std::to_string(in[i]) +
                    ", which does not fit into the 32 bits that it has in JAX");
    }
    out[i] = static_cast<int32_t>(in[i]);
  }
}

}  // namespace

Instance::Instance(const Definition& definition, const Attributes& attributes)
    : definition_(definition) {
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
  device.kind = attributes.device;
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
    per_group_.push_back(arg.domain == STEPFUSE_PER_GROUP);
  }
  for (size_t i = 0; i < attributes.set_values.size(); ++i) {
    set(attributes.set_args.subspan(2 * i, 2), attributes.set_values[i]);
  }
  for (const Definition::State& state : definition.states_) {
    StateArray place;
    check(stepfuse_step_device_state(step, state.name.c_str(), &place.address));
    check(stepfuse_step_read_state(step, state.name.c_str(), nullptr, 0, &place.count, nullptr));
    states_.push_back(place);
  }
  gradients_.resize(definition.tensor_count());
}

void Instance::set(std::span<const int32_t> target, double value) {
  int32_t arg = target[0], group = target[1];
  bool one = group >= 0 && per_group_.at(static_cast<size_t>(arg));
  check(one ? stepfuse_args_set_member(args_.get(), arg, group, value)
            : stepfuse_args_set(args_.get(), arg, value));
}

void Instance::set_numbers(const Attributes& attributes, const Array& numbers) {
  size_t count = attributes.dynamic.size() / 2;
  if (numbers.elements() < count) throw Failure("the call has fewer numbers than it sets");
  for (size_t i = 0; i < count; ++i) {
    double value = numbers.dtype == STEPFUSE_F64 ? static_cast<const double*>(numbers.data)[i]
                                                 : static_cast<const float*>(numbers.data)[i];
    set(attributes.dynamic.subspan(2 * i, 2), value);
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
    const StateArray& place = states_[s];
    stepfuse_dtype dtype = definition_.states_[s].dtype;
    if (dtype == STEPFUSE_I64) {
      widen(call.values[s], place.address, place.count);
    } else if (place.count != 0) {
      std::memcpy(place.address, call.values[s].data, place.count * stepfuse_dtype_size(dtype));
    }
  }
}

void Instance::write_values(const Arrays& call) const {
  for (size_t s = 0; s < states_.size(); ++s) {
    const StateArray& place = states_[s];
    stepfuse_dtype dtype = definition_.states_[s].dtype;
    if (dtype == STEPFUSE_I64) {
      narrow(definition_.states_[s].name, place.address, call.new_values[s], place.count);
    } else if (place.count != 0) {
      std::memcpy(call.new_values[s].data, place.address, place.count * stepfuse_dtype_size(dtype));
    }
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
        "a formula reduces over all elements after the norm, which devices do not exchange: leave "
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
  check(stepfuse_step_run(step_.get(), gradients_.data(), gradients_.size(), args_.get(), nullptr));
  write_values(call);
}

void Instance::init(const Arrays& call) {
  bind(call);
  size_t at = 0;
  for (const Definition::Buffer& buffer : definition_.buffers_) {
    for (size_t i = 0; i < buffer.tensors.size(); ++i, ++at) {
      const Array& array = call.arrays[at];
      if (buffer.initialised || buffer.name == "weight" || array.elements() == 0) continue;
      std::memset(array.data, 0, array.elements() * stepfuse_dtype_size(array.dtype));
    }
  }
  check(stepfuse_step_init_state(step_.get(), nullptr));
  write_values(call);
}

}  // namespace stepfuse_jax
