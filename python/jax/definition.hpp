// A step as XLA calls it: what is fixed for a compiled program, and the steps made from it. Knows the C API.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/stepfuse.h>

#include "python/jax/memory.hpp"

namespace stepfuse_jax {

// The message of a failed call; handlers return it to XLA.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws the C API's message.
void check(stepfuse_status status);

// An XLA buffer.
struct Array {
  void* data = nullptr;
  stepfuse_dtype dtype = -1;  // -1 for words
  std::span<const int64_t> dims;
  uint64_t elements() const;
};

// The attributes of a custom call, which Python writes.
struct Attributes {
  std::string_view key;    // a digest of everything else and of the shapes
  std::string_view text;   // the program
  std::string_view names;  // of the parameters, one per line
  std::span<const int32_t> groups;
  std::span<const int32_t> set_args;   // (argument, group or -1) for each of set_values
  std::span<const double> set_values;  // numbers that are known when the call is compiled
  std::span<const int32_t> dynamic;  // (argument, group or -1) for each number of the first operand
  int32_t devices = 0;               // of the axis over which parameters are sharded; 0: no axis
  std::span<const int32_t>
      sharded;                 // [tensor] 1: this device has its rows, 0: every device has all rows
  std::string_view exchanged;  // reductions over all elements that devices exchange, one per line
  double init_scale = 0;
  int32_t device = STEPFUSE_CPU;
  int32_t threads = 0;
};

// The operands and results of a call, in the order of Python's side.
struct Arrays {
  Memory memory;  // in which all of them are
  Array
      numbers;  // [number][2] words: the number as its argument has it, then padding; see Attributes::dynamic
  int32_t index = 0;  // of the device along the axis
  // [exchanged reduction][piece of the full tensors], as bits: of all devices before a step; and what reduce()
  // writes, with 0 for the pieces of other devices.
  Array all_pieces, own_pieces;
  std::span<const Array> gradients;  // [tensor]
  // [buffer without the gradient, the weight first][tensor that has it]
  std::vector<Array> arrays;
  std::span<const Array> values, new_values;  // [state], with the bytes that a step has them in
};

template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* handle) const {
    destroy(handle);
  }
};
template <class T, auto destroy>
using Handle = std::unique_ptr<T, Destroy<destroy>>;
using Program = Handle<stepfuse_program, stepfuse_program_destroy>;
using Layout = Handle<stepfuse_layout, stepfuse_layout_destroy>;

// A compiled step and the addresses that it is bound to. One thread uses it at a time.
class Instance;

class Definition {
 public:
  Definition(const Attributes& attributes, int32_t index, std::span<const Array> weights,
             std::span<const Array> gradients);
  ~Definition();

  // One step, in place.
  void step(const Attributes& attributes, const Arrays& call);
  // The pieces of the exchanged reductions, before a step() with those of all devices.
  void reduce(const Attributes& attributes, const Arrays& call);
  // The initial values of states and arrays.
  void init(const Attributes& attributes, const Arrays& call);

  size_t tensor_count() const { return sizes_.size(); }
  size_t state_count() const { return states_.size(); }
  size_t array_count() const { return array_count_; }

 private:
  friend class Instance;
  struct Buffer {
    std::string name;
    std::vector<size_t> tensors;  // which have it
    bool initialised = false;
  };
  struct State {
    std::string name;
    stepfuse_dtype dtype = 0;
  };
  void place_pieces(const Attributes& attributes, int32_t index);
  template <class Use>
  void use_instance(const Attributes& attributes, const Arrays& call, Use&& use);
  std::unique_ptr<Instance> take(void* first_array, const void* stream);
  void give_back(std::unique_ptr<Instance> instance);

  Program program_;
  Layout layout_;
  std::vector<uint64_t> sizes_;  // [tensor]
  std::vector<Buffer> buffers_;  // without the gradient
  std::vector<State> states_;
  std::vector<std::string> exchanged_;  // names of reductions
  // [piece of this device] its number among those of the full tensors, or kOthers if a different device says it.
  static constexpr size_t kOthers = ~size_t{0};
  std::vector<size_t> pieces_;
  size_t all_pieces_ = 0;
  size_t array_count_ = 0;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Instance>> idle_;
  size_t made_ = 0;
};

// The definition with that key for that device of the axis, made when it is first asked for.
std::shared_ptr<Definition> find_definition(const Attributes& attributes, int32_t index,
                                            std::span<const Array> weights,
                                            std::span<const Array> gradients);

}  // namespace stepfuse_jax
