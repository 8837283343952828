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

stepfuse_buffer describe_buffer(const stepfuse_program* program, size_t index) {
  stepfuse_buffer buffer = STEPFUSE_BUFFER;
  check(stepfuse_program_buffer(program, index, &buffer));
  return buffer;
}

// Rows are those of the first dimension, as in the package for PyTorch.
uint64_t count_columns(std::span<const int64_t> dims, uint64_t elements) {
  return dims.size() > 1 && dims[0] > 0 ? elements / static_cast<uint64_t>(dims[0]) : 0;
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

Layout make_layout(const stepfuse_program* program, const Attributes& attributes,
                   std::span<const Array> weights, std::span<const Array> gradients) {
  stepfuse_layout* made = nullptr;
  check(stepfuse_layout_create(&made));
  Layout layout(made);
  std::string_view names = attributes.names;
  for (size_t t = 0; t < weights.size(); ++t) {
    size_t end = std::min(names.find('\n'), names.size());
    std::string name(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
    std::vector<stepfuse_storage> storage = choose_storage(program, weights[t], gradients[t]);
    stepfuse_tensor tensor = STEPFUSE_TENSOR;
    tensor.name = name.c_str();
    tensor.elements = weights[t].elements();
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

Definition::Definition(const Attributes& attributes, std::span<const Array> weights,
                       std::span<const Array> gradients) {
  stepfuse_program* program = nullptr;
  check(stepfuse_parse(std::string(attributes.text).c_str(), nullptr, &program));
  program_.reset(program);
  if (weights.size() != attributes.groups.size() || gradients.size() != weights.size()) {
    throw Failure("the call has another number of parameters than its layout");
  }
  layout_ = make_layout(program, attributes, weights, gradients);
  for (const Array& weight : weights) sizes_.push_back(weight.elements());
  for (size_t b = 0; b < stepfuse_program_buffer_count(program); ++b) {
    stepfuse_buffer buffer = describe_buffer(program, b);
    if (std::string_view(buffer.name) == "grad") continue;
    Buffer& own = buffers_.emplace_back();
    own.name = buffer.name;
    own.initialised = buffer.initialised != 0;
    for (size_t t = 0; t < sizes_.size(); ++t) {
      if (sizes_[t] >= buffer.from && sizes_[t] < buffer.below) own.tensors.push_back(t);
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

// The idle step that is bound to these arrays already; otherwise a new one, or the one that waited longest.
std::unique_ptr<Instance> Definition::take(void* first_array) {
  std::scoped_lock lock(mutex_);
  auto found = std::find_if(idle_.begin(), idle_.end(),
                            [&](const auto& i) { return i->first_array() == first_array; });
  if (found == idle_.end()) {
    if (idle_.empty() || made_ < kMostInstances) {
      ++made_;
      return nullptr;
    }
    found = idle_.begin();
  }
  std::unique_ptr<Instance> instance = std::move(*found);
  idle_.erase(found);
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

void Definition::step(const Attributes& attributes, const Arrays& call) {
  std::unique_ptr<Instance> instance = take(call.arrays.empty() ? nullptr : call.arrays[0].data);
  try {
    if (instance == nullptr) instance = std::make_unique<Instance>(*this, attributes);
    instance->step(attributes, call);
  } catch (...) {
    // A step that has failed is made again: nothing is known of its bindings.
    give_back(nullptr);
    throw;
  }
  give_back(std::move(instance));
}

// A new step: one that has run has other values in the states that only the caller writes.
void Definition::init(const Attributes& attributes, const Arrays& call) {
  Instance(*this, attributes).init(call);
}

std::shared_ptr<Definition> find_definition(const Attributes& attributes,
                                            std::span<const Array> weights,
                                            std::span<const Array> gradients) {
  struct Text {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct Entry {
    std::shared_ptr<Definition> definition;
    std::list<std::string>::iterator place;
  };
  static std::mutex mutex;
  static std::list<std::string> newest_first;
  static std::unordered_map<std::string, Entry, Text, std::equal_to<>> known;
  std::scoped_lock lock(mutex);
  auto found = known.find(attributes.key);
  if (found != known.end()) {
    newest_first.splice(newest_first.begin(), newest_first, found->second.place);
    return found->second.definition;
  }
  auto definition = std::make_shared<Definition>(attributes, weights, gradients);
  newest_first.emplace_front(attributes.key);
  known[newest_first.front()] = {definition, newest_first.begin()};
  if (known.size() > kMostDefinitions) {
    known.erase(newest_first.back());
    newest_first.pop_back();
  }
  return definition;
}

}  // namespace stepfuse_jax
