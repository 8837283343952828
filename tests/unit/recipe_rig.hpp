// A recipe that the interpreter runs on two small tensors, for tests of rules.
#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>

#include "ir/semantics/interpreter.hpp"
#include "ir/semantics/narrow.hpp"

namespace stepfuse::testing {

// Over two small tensors in one group, f32 everywhere but gradients of f16 or bf16.
class Rig {
 public:
  Rig(const std::string& recipe, const RecipeOptions& options)
      : program(make_recipe(recipe, options)) {
    arrays_.resize(program.buffers.size());
    for (size_t t = 0; t < 2; ++t) data_.tensors.emplace_back();
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      const Buffer& b = program.buffers[i];
      bool kept = b.name == "weight" || b.name == "master" || b.name == "ema";
      for (size_t t = 0; t < 2; ++t) {
        arrays_[i].push_back(std::vector<float>(kSize, kept ? 1.0F : 0.0F));
        data_.tensors[t].dtypes.push_back(b.dtypes.only());
        data_.tensors[t].size = kSize;
      }
    }
    for (const State& s : program.states) {
      size_t count = s.type.at == per::tensor ? 2 : 1;
      data_.states.emplace_back(count, s.initial);
    }
    for (const Arg& a : program.args) data_.args.push_back({a.fallback.value_or(Bits{})});
  }

  // Both gradients are `value` everywhere, except the second tensor's first element.
  void run(float value, float special) {
    auto& grads = array("grad");
    grads[0].assign(kSize, value);
    grads[1].assign(kSize, value);
    grads[1][0] = special;
    auto at = static_cast<size_t>(program.find_buffer("grad"));
    for (size_t t = 0; t < 2; ++t) {
      DType grad = data_.tensors[t].dtypes[at];
      std::vector<uint16_t> narrowed;
      if (grad != DType::f32) {
        for (float g : grads[t]) narrowed.push_back(static_cast<uint16_t>(narrow(g, grad)));
      }
      narrow_[t] = std::move(narrowed);
      data_.tensors[t].data.clear();
      for (auto& a : arrays_) data_.tensors[t].data.push_back(a[t].data());
      if (grad != DType::f32) data_.tensors[t].data[at] = narrow_[t].data();
    }
    interpret(program, data_);
  }
  void run(float value) { run(value, value); }
  // Both gradients are absent.
  void run_without_gradients() {
    for (auto& t : data_.tensors) t.present = false;
    run(0);
    for (auto& t : data_.tensors) t.present = true;
  }

  std::vector<std::vector<float>>& array(const std::string& name) {
    return arrays_[static_cast<size_t>(program.find_buffer(name))];
  }
  double state(const std::string& name, size_t member = 0) {
    auto i = static_cast<size_t>(program.find_state(name));
    REQUIRE(program.find_state(name) >= 0);
    Bits bits = data_.states[i][member];
    DType t = program.states[i].type.dtype;
    if (t == DType::f64) return bits.f64();
    return t == DType::boolean ? bits.b() : sem_double(bits, t);
  }
  void set_state(const std::string& name, double v, size_t member = 0) {
    auto i = static_cast<size_t>(program.find_state(name));
    REQUIRE(program.find_state(name) >= 0);
    DType t = program.states[i].type.dtype;
    data_.states[i][member] = t == DType::boolean ? Bits::of(v != 0)
                              : t == DType::i32   ? Bits::of(static_cast<int32_t>(v))
                                                  : Bits::of(static_cast<float>(v));
  }
  void set(const std::string& name, double v) {
    auto i = static_cast<size_t>(program.find_arg(name));
    REQUIRE(program.find_arg(name) >= 0);
    DType t = program.args[i].type.dtype;
    data_.args[i] = {t == DType::i32   ? Bits::of(static_cast<int32_t>(v))
                     : t == DType::f32 ? Bits::of(static_cast<float>(v))
                                       : Bits::of(v)};
  }
  void set_tensor_present(size_t t, bool present) { data_.tensors[t].present = present; }
  int64_t count(size_t t) {
    return data_.states[static_cast<size_t>(program.find_state("step"))][t].i64();
  }

  Program program;

 private:
  static constexpr size_t kSize = 5;
  static double sem_double(Bits b, DType t) {
    return t == DType::f32 ? static_cast<double>(b.f32())
                           : static_cast<double>(t == DType::i32 ? b.i32() : b.i64());
  }
  std::vector<std::vector<std::vector<float>>> arrays_;  // [buffer][tensor]
  std::vector<uint16_t> narrow_[2];
  StepData data_;
};

}  // namespace stepfuse::testing
