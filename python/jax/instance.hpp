// One compiled step of a definition, bound to the buffers of the last call. Knows the C API.
#pragma once

#include "python/jax/definition.hpp"

namespace stepfuse_jax {

class Instance {
 public:
  Instance(const Definition& definition, const Attributes& attributes, const Memory& memory);
  ~Instance();

  void step(const Attributes& attributes, const Arrays& call);
  void reduce(const Attributes& attributes, const Arrays& call);
  void init(const Arrays& call);
  void* first_array() const { return bound_.empty() ? nullptr : bound_.front(); }
  const void* stream() const { return memory_.stream(); }

 private:
  struct StateArray {  // a state's memory in the step
    void* address = nullptr;
    size_t bytes = 0;
  };
  void load(const Attributes& attributes, const Arrays& call);
  void bind(const Arrays& call);
  void observe();
  void fold(const Array& all_pieces);
  // Calls use(index of the reduction, its description, its number) for each exchanged one.
  template <class Use>
  void for_each_exchanged(Use&& use) const;
  void set(std::span<const int32_t> target, double value);
  void set_numbers(const Attributes& attributes, const Array& numbers);
  void set_numbers_on_device(const Attributes& attributes, const Array& numbers);
  // The arguments of a run: NULL for those in the step's own block on a CUDA device.
  const stepfuse_args* run_args() const { return memory_.is_cuda() ? nullptr : args_.get(); }
  void read_values(const Arrays& call);
  void write_values(const Arrays& call) const;

  struct Argument {
    stepfuse_dtype dtype = 0;
    bool per_group = false;
  };

  const Definition& definition_;
  Memory memory_;
  Handle<stepfuse_scaler, stepfuse_scaler_destroy> scaler_;  // outlives the step
  Handle<stepfuse_step, stepfuse_step_destroy> step_;
  Handle<stepfuse_args, stepfuse_args_destroy> args_;
  std::vector<Argument> arguments_;
  bool args_on_device_ = false;
  std::vector<StateArray> states_;
  std::vector<void*> bound_;   // [array], as in Arrays::arrays
  std::vector<void*> buffer_;  // [tensor] while a buffer is bound
  std::vector<void*> gradients_;
  bool reduced_ = false;  // for the addresses that are bound, since the last run
};

}  // namespace stepfuse_jax
