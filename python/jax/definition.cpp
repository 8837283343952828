// Makes definitions from attributes, and lends their steps to calls. Knows the C API.
#include "python/jax/definition.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <list>
#include <numeric>
#include <unordered_map>

#include "python/jax/instance.hpp"

namespace stepfuse_jax {
namespace {

constexpr size_t kMostDefinitions = 256;  // of a process; the oldest ones are forgotten
constexpr size_t kMostInstances = 16;     // that wait for calls with their addresses
constexpr uint64_t kPiece = 16384;        // elements that the language reduces at once

stepfuse_buffer describe_buffer(const stepfuse_program* program, size_t index) {
  stepfuse_buffer buffer = STEPFUSE_BUFFER;
  check(stepfuse_program_buffer(program, index, &buffer));
  return buffer;
}

// Rows are those of the first dimension, as in the package for PyTorch.
uint64_t count_columns(std::span<const int64_t> dims, uint64_t elements) {
  return dims.size() > 1 && dims[0] > 0 ? elements / static_cast<uint64_t>(dims[0]) : 0;
}

bool is_sharded(const Attributes& attributes, size_t tensor) {
  return attributes.devices != 0 && attributes.sharded[tensor] != 0;
}

// The types of one tensor's arrays in buffers that allow several.
std::vector<stepfuse_storage> choose_storage(const stepfuse_program* program, const Array& weight,
                                             const Array& gradient) {
  std::vector<stepfuse_storage> storage;
  for (size_t b = 0; b < stepfuse_program_buffer_count(program); ++b) {
    stepfuse_buffer buffer = describe_buffer(program, b);
    if (std::has_single_bit(buffer.dtypes)) continue;
    bool is_gradient = std::string_view(buffer.name) == "grad";
    storage.push_back({buffer.name, is_gradient ? gradient.dtype : weight.dtype});
  }
  return storage;
}

// Lines of a text, without their ends.
std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

Layout make_layout(const stepfuse_program* program, const Attributes& attributes, int32_t index,
                   std::span<const Array> weights, std::span<const Array> gradients) {
  stepfuse_layout* made = nullptr;
  check(stepfuse_layout_create(&made));
  Layout layout(made);
  std::vector<std::string> names = split_lines(attributes.names);
  names.resize(weights.size());
  for (size_t t = 0; t < weights.size(); ++t) {
    std::vector<stepfuse_storage> storage = choose_storage(program, weights[t], gradients[t]);
    stepfuse_tensor tensor = STEPFUSE_TENSOR;
    tensor.name = names[t].c_str();
    tensor.elements = weights[t].elements();
    if (is_sharded(attributes, t)) {
      tensor.offset = static_cast<uint64_t>(index) * tensor.elements;
      tensor.full_elements = static_cast<uint64_t>(attributes.devices) * tensor.elements;
    }
    tensor.group = attributes.groups[t];
    tensor.storage = storage.data();
    tensor.storage_count = storage.size();
    tensor.columns = count_columns(weights[t].dims, tensor.elements);
    check(stepfuse_layout_add(made, &tensor));
  }
  return layout;
}

}  // namespace

void check(stepfuse_status status) {
  if (status != STEPFUSE_OK) throw Failure(stepfuse_error_message());
}

uint64_t Array::elements() const {
  return std::accumulate(dims.begin(), dims.end(), uint64_t{1},
                         [](uint64_t n, int64_t d) { return n * static_cast<uint64_t>(d); });
}

Definition::Definition(const Attributes& attributes, int32_t index, std::span<const Array> weights,
                       std::span<const Array> gradients)
    : exchanged_(split_lines(attributes.exchanged)) {
  stepfuse_program* program = nullptr;
  check(stepfuse_parse(std::string(attributes.text).c_str(), nullptr, &program));
  program_.reset(program);
  if (weights.size() != attributes.groups.size() || gradients.size() != weights.size()) {
    throw Failure("the call has another number of parameters than its layout");
  }
  if (attributes.devices != 0 && attributes.sharded.size() != weights.size()) {
    throw Failure("the call does not say for each parameter whether it is sharded");
  }
  layout_ = make_layout(program, attributes, index, weights, gradients);
  for (const Array& weight : weights) sizes_.push_back(weight.elements());
  if (!exchanged_.empty()) place_pieces(attributes, index);
  for (size_t b = 0; b < stepfuse_program_buffer_count(program); ++b) {
    stepfuse_buffer buffer = describe_buffer(program, b);
    if (std::string_view(buffer.name) == "grad") continue;
    Buffer& own = buffers_.emplace_back();
    own.name = buffer.name;
    own.initialised = buffer.initialised != 0;
    for (size_t t = 0; t < sizes_.size(); ++t) {
      uint64_t full = is_sharded(attributes, t) ? sizes_[t] * attributes.devices : sizes_[t];
      if (full >= buffer.from && full < buffer.below) own.tensors.push_back(t);
    }
    array_count_ += own.tensors.size();
  }
  auto weight = std::find_if(buffers_.begin(), buffers_.end(),
                             [](const Buffer& b) { return b.name == "weight"; });
  if (weight == buffers_.end() || weight->tensors.size() != sizes_.size()) {
    throw Failure("the program has no buffer 'weight' that all tensors have");
  }
  std::rotate(buffers_.begin(), weight, weight + 1);
  for (size_t s = 0; s < stepfuse_program_state_count(program); ++s) {
    stepfuse_state state = STEPFUSE_STATE;
    check(stepfuse_program_state(program, s, &state));
    states_.push_back({state.name, state.dtype});
  }
}

Definition::~Definition() = default;

// The idle step that is bound to these arrays already; otherwise a new one, or the one that waited longest. A step
// stays on one stream, whose order its copies rely on.
std::unique_ptr<Instance> Definition::take(void* first_array, const void* stream) {
  std::scoped_lock lock(mutex_);
  auto found = std::find_if(idle_.begin(), idle_.end(), [&](const auto& i) {
    return i->first_array() == first_array && i->stream() == stream;
  });
  if (found == idle_.end()) {
    if (idle_.empty() || made_ < kMostInstances) {
      ++made_;
      return nullptr;
    }
    found = idle_.begin();
  }
  std::unique_ptr<Instance> instance = std::move(*found);
  idle_.erase(found);
  if (instance->stream() != stream) instance.reset();
  return instance;
}

void Definition::give_back(std::unique_ptr<Instance> instance) {
  std::scoped_lock lock(mutex_);
  if (instance == nullptr) {
    --made_;
  } else {
    idle_.push_back(std::move(instance));
  }
}

// Whole parameters are the same on all devices, and the first device says their pieces.
void Definition::place_pieces(const Attributes& attributes, int32_t index) {
  for (size_t t = 0; t < sizes_.size(); ++t) {
    size_t own = (sizes_[t] + kPiece - 1) / kPiece;
    bool split = is_sharded(attributes, t);
    for (size_t i = 0; i < own; ++i) {
      size_t place = all_pieces_ + (split ? static_cast<size_t>(index) * own : 0) + i;
      pieces_.push_back(split || index == 0 ? place : kOthers);
    }
    all_pieces_ += split ? own * static_cast<size_t>(attributes.devices) : own;
  }
}

template <class Use>
void Definition::use_instance(const Attributes& attributes, const Arrays& call, Use&& use) {
  std::unique_ptr<Instance> instance =
      take(call.arrays.empty() ? nullptr : call.arrays[0].data, call.memory.stream());
  try {
    if (instance == nullptr) {
      instance = std::make_unique<Instance>(*this, attributes, call.memory);
    }
    use(*instance);
  } catch (...) {
    // A step that has failed is made again: nothing is known of its bindings.
    give_back(nullptr);
    throw;
  }
  give_back(std::move(instance));
}

void Definition::step(const Attributes& attributes, const Arrays& call) {
  use_instance(attributes, call, [&](Instance& i) { i.step(attributes, call); });
}

void Definition::reduce(const Attributes& attributes, const Arrays& call) {
  use_instance(attributes, call, [&](Instance& i) { i.reduce(attributes, call); });
}

// A new step: one that has run has other values in the states that only the caller writes.
void Definition::init(const Attributes& attributes, const Arrays& call) {
  Instance(*this, attributes, call.memory).init(call);
}

std::shared_ptr<Definition> find_definition(const Attributes& attributes, int32_t index,
                                            std::span<const Array> weights,
                                            std::span<const Array> gradients) {
  struct Entry {
    std::shared_ptr<Definition> definition;
    std::list<std::string>::iterator place;
  };
  struct Known {
    std::mutex mutex;
    std::list<std::string> newest_first;
    std::unordered_map<std::string, Entry> entries;
  };
  // It is never freed: when the process ends, the driver may end before it.
  static Known& known = *new Known();
  std::string key = std::string(attributes.key) + ":" + std::to_string(index);
  std::scoped_lock lock(known.mutex);
  auto found = known.entries.find(key);
  if (found != known.entries.end()) {
    known.newest_first.splice(known.newest_first.begin(), known.newest_first, found->second.place);
    return found->second.definition;
  }
  auto definition = std::make_shared<Definition>(attributes, index, weights, gradients);
  known.newest_first.push_front(std::move(key));
  known.entries[known.newest_first.front()] = {definition, known.newest_first.begin()};
  if (known.entries.size() > kMostDefinitions) {
    known.entries.erase(known.newest_first.back());
    known.newest_first.pop_back();
  }
  return definition;
}

}  // namespace stepfuse_jax
