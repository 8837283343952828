// The vocabulary of recipes: the builder, the settled options, and the values that an optimizer and the
// pieces around it share. Knows ir only.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stepfuse/format.hpp>
#include <stepfuse/recipe_options.hpp>

#include "ir/program/builder.hpp"

namespace stepfuse::recipes {

// An argument with its peers' default. Without a default, every run must set it.
struct ArgSpec {
  std::string name;
  std::optional<double> value;
  Type type = {DType::f64, per::group};
};

// Returns the name of the argument that holds an argument's factor per tensor.
inline std::string scale_of(std::string_view arg) { return std::string(arg) + "_scale"; }

// Options in which every default is decided.
struct Settings {
  RecipeOptions options;
  DType model = DType::bf16;  // storage type of the low-precision copy
  bool check = false;         // the step computes found_inf
  bool skip_nonfinite = false;
  bool skip_overflow = false;  // a step with an infinite norm is skipped
  bool norm = false;           // a norm is computed or given
  WeightDecay weight_decay = WeightDecay::none;
  std::optional<Format> weight_format;  // of the weights, or of their copies

  bool torch() const {
    return options.profile == Profile::torch_fused || options.profile == Profile::torch_foreach;
  }
  bool scaled() const { return options.loss_scale != LossScale::none; }
  bool clips_norm() const {
    return options.clip != Clip::none && options.clip != Clip::value && !clips_rows();
  }
  bool clips_rows() const { return options.clip == Clip::agc; }
  // Whether the copy's scales are an array of the caller's, so that the first masters are the caller's too.
  bool has_scale_arrays() const {
    return options.copy_scale != CopyScale::none && weight_format &&
           weight_format->encode.buffers.size() > 2;
  }
};

// A buffer that the optimizer keeps, and its value before the step in f32.
struct StoredValue {
  BufferRef buffer;
  Value value;
};

class Context {
 public:
  Context(Builder& builder, const Settings& settings) : b(builder), settings(settings) {}

  void declare(std::span<const ArgSpec> args);
  Value arg(std::string_view name) const;  // with its declared type, f64 by default
  Value arg32(std::string_view name);      // narrowed to f32, once

  // Constants, each made once.
  Value f64(double v) { return constant(DType::f64, v); }
  Value f32(double v) { return constant(DType::f32, v); }
  Value i64(double v) { return constant(DType::i64, v); }
  Value i32(double v) { return constant(DType::i32, v); }
  Value narrow(Value v) { return b.cast(v, DType::f32); }

  // Starts a classic stage, unless it is the current one.
  void stage(std::string_view name);

  // Declares and loads a moment, zero at first, in the storage type of the moments or f32.
  StoredValue moment(std::string_view name);
  StoredValue declare_and_load(std::string_view name, DType dtype);
  // Stores the new value if the step is good and `also` holds.
  void update(const StoredValue& kept, Value v, Value also = {});
  // Returns c.applied and `also`.
  Value applied_and(Value also);

  // Returns `v` per element if the tensor is counted, and otherwise zero.
  Value if_counted(Value v);

  // Returns the tensor's count of good steps including this one, <i64>, and stores it if the step is good.
  Value count();
  Value count_before();  // the same without this step

  // Returns the state that seeds random numbers, one i64 per step.
  Value seed();
  // Returns 32 random bits per element, different ones at each call. They depend on the count of good
  // steps, so a skipped step and the next one draw the same bits.
  Value random_bits();

  Builder& b;
  const Settings& settings;
  Value gradient;  // f32, after unscaling and clipping, negated for maximize
  BufferRef gradient_buffer;
  Value weight;             // f32, before the step
  BufferRef weight_buffer;  // the buffer that it was loaded from
  Value good;               // bool per step; if unset, every step is good
  Value applied;            // good, and this tensor is updated; if unset, always
  Value counted;            // bool per tensor: in norm and check; if unset, all are
  Value scale;              // f32, before the step; see read_scale
  StateRef scale_state;
  Value next_scale;  // the scale after this step, if it updates the scale
  // With a window: the number of its micro-batches.
  Value micro_batches;
  StateRef micro_batches_state;
  RandomInputs random;               // of stochastic rounding
  std::vector<std::string> moments;  // buffers that are stored as --moments says

 private:
  Value constant(DType dtype, double v);

  std::map<std::pair<DType, double>, Value> constants_;
  std::map<std::string, Value, std::less<>> args_;
  std::map<std::string, Value, std::less<>> narrowed_;
  Value count_before_;
  Value count_;
  Value seed_;
  int32_t streams_ = 1;  // number of random streams; stream 0 rounds the weights
  std::string stage_;
};

}  // namespace stepfuse::recipes
