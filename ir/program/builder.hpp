// Builds a Program with C++ code that reads like its formula. Knows ir only.
//
//   Builder b("sgd");
//   auto grad = b.buffer("grad", DType::f32, Access::in);
//   auto w = b.buffer("weight", DType::f32, Access::inout);
//   auto lr = b.arg("lr", {DType::f32, per::group});
//   b.store(w, b.load(w) - lr * b.load(grad));
//   Program p = b.finish();
//   Program p = b.finish();
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <stepfuse/program.hpp>

namespace stepfuse {

class Builder;

// A value of a builder; cheap to copy, and valid while its builder lives.
struct Value {
  Builder* builder = nullptr;
  ValueId id = kNoValue;

  Type type() const;
  // Gives the value a name in the text: `auto g = (grad * inv).named("g");`
  Value named(std::string_view name) const;
  explicit operator bool() const { return builder != nullptr; }
};

struct BufferRef {
  int32_t slot = -1;
};
struct StateRef {
  int32_t slot = -1;
};
struct TableRef {
  int32_t slot = -1;
};

class Builder {
 public:
  explicit Builder(std::string name);
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  BufferRef buffer(std::string name, DTypeSet dtypes, Access access, Granularity at = per::element);
  // Limits the buffer to some tensors (Buffer::from and below).
  void only_of(BufferRef buffer, uint64_t from, uint64_t below);
  // Sets the buffer's initial values (see Buffer::Init): zeros, or a copy of `from`.
  void init_zero(BufferRef buffer);
  void init_copy(BufferRef buffer, BufferRef from);
  StateRef state(std::string name, Type type, bool shared = false, double initial = 0);
  StateRef report(std::string name, Type type);
  TableRef table(std::string name, std::vector<float> values);
  // Arguments come before every other value.
  Value arg(const std::string& name, Type type, std::optional<double> fallback = {});

  Value constant(DType dtype, double value);  // per step
  Value load(BufferRef buffer);               // [storage type], or [@buffer] if it may be several
  Value read(StateRef state);
  Value present();
  Value tensor_index();
  Value element_count();
  Value column_count();
  Value element_index();
  // Returns [i32]. `seed` and `count` are i64, `stream` is i32, and none of them is per element.
  Value random(Value seed, Value count, Value stream);
  Value lookup(TableRef table, Value code);
  Value nearest(TableRef table, Value v);
  // Appends any elementwise op; the result type follows from the op's rule.
  Value apply(Op op, std::initializer_list<Value> operands);
  Value cast(Value v, DType to);
  Value bitcast(Value v, DType to);
  Value cast_sr(Value v, Value random, DType to);
  // Casts to the buffer's (possibly bound) storage type.
  Value cast_to_buffer(Value v, BufferRef buffer);
  Value reduce(Op op, Value v, Granularity to = per::step);
  Value select(Value condition, Value if_true, Value if_false) {
    return apply(Op::select, {condition, if_true, if_false});
  }

  void stage(std::string name);  // marks the start of a classic stage, for the unfused form
  void store(BufferRef buffer, Value v, Value predicate = {});
  void write(StateRef state, Value v, Value predicate = {});

  // Appends the code of a step that is elementwise. `values` are what it loads and its arguments, by name; what
  // it stores is added to them.
  void insert(const Program& step, std::map<std::string, Value>& values);

  // Verifies and returns the program. The builder must not be used afterwards.
  Program finish();

  const Program& program() const { return program_; }

 private:
  friend struct Value;
  Value append(Inst inst, std::string_view name);
  Value ask_table(Op op, TableRef table, Value v, DType result);
  Program program_;
  void free_name(const std::string& name);
  std::string take_name(std::string_view name);  // appends a number if the name is taken

  std::unordered_set<std::string> names_;              // taken by values
  std::unordered_map<std::string, int> first_number_;  // [name]: all smaller numbers are taken
};

inline Value operator+(Value a, Value b) { return a.builder->apply(Op::add, {a, b}); }
inline Value operator-(Value a, Value b) { return a.builder->apply(Op::sub, {a, b}); }
inline Value operator*(Value a, Value b) { return a.builder->apply(Op::mul, {a, b}); }
inline Value operator/(Value a, Value b) { return a.builder->apply(Op::div, {a, b}); }
inline Value operator-(Value a) { return a.builder->apply(Op::neg, {a}); }
inline Value operator!(Value a) { return a.builder->apply(Op::logical_not, {a}); }
inline Value operator&(Value a, Value b) { return a.builder->apply(Op::bit_and, {a, b}); }
inline Value operator|(Value a, Value b) { return a.builder->apply(Op::bit_or, {a, b}); }
inline Value operator<(Value a, Value b) { return a.builder->apply(Op::lt, {a, b}); }
inline Value operator<=(Value a, Value b) { return a.builder->apply(Op::le, {a, b}); }
inline Value sqrt(Value a) { return a.builder->apply(Op::sqrt, {a}); }
inline Value rcp(Value a) { return a.builder->apply(Op::rcp, {a}); }
inline Value abs(Value a) { return a.builder->apply(Op::abs, {a}); }
inline Value isfinite(Value a) { return a.builder->apply(Op::isfinite, {a}); }
inline Value min(Value a, Value b) { return a.builder->apply(Op::min, {a, b}); }
inline Value max(Value a, Value b) { return a.builder->apply(Op::max, {a, b}); }
inline Value eq(Value a, Value b) { return a.builder->apply(Op::eq, {a, b}); }
inline Value powi(Value a, Value b) { return a.builder->apply(Op::powi, {a, b}); }
inline Value fma(Value a, Value b, Value c) { return a.builder->apply(Op::fma, {a, b, c}); }

}  // namespace stepfuse
