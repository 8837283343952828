// Builds a Program in C++. Knows ir and fmt.
#include "ir/program/builder.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "ir/program/verifier.hpp"
#include "ir/semantics/semantics.hpp"
#include "ir/text/words.hpp"

namespace stepfuse {
namespace {
Bits literal(DType dtype, double value) {
  if (dtype == DType::boolean) return Bits::of(value != 0);
  if (is_low_precision(dtype)) {
    return sem::cast(Bits::of(static_cast<float>(value)), DType::f32, dtype);
  }
  return sem::cast(Bits::of(value), DType::f64, dtype);
}
}  // namespace

Type Value::type() const { return builder->program_[id].type; }

Value Value::named(std::string_view name) const {
  std::string& current = builder->program_.names[static_cast<size_t>(id)];
  builder->free_name(current);
  current = builder->take_name(name);
  return *this;
}

// Repeated names get the smallest free number: g, g.1, g.2, …
std::string Builder::take_name(std::string_view name) {
  std::string unique(name);
  if (names_.insert(unique).second) return unique;
  int& number = first_number_.try_emplace(unique, 1).first->second;
  do unique = fmt::format("{}.{}", name, number++);
  while (!names_.insert(unique).second);
  return unique;
}

void Builder::free_name(const std::string& name) {
  names_.erase(name);
  size_t dot = name.rfind('.');
  if (dot == std::string::npos) return;
  auto first = first_number_.find(name.substr(0, dot));
  int number = parse_number<int>(std::string_view(name).substr(dot + 1)).value_or(0);
  if (first != first_number_.end() && number > 0) first->second = std::min(first->second, number);
}

Builder::Builder(std::string name) { program_.name = std::move(name); }

Value Builder::append(Inst inst, std::string_view name) {
  program_.insts.push_back(inst);
  program_.locs.emplace_back();
  program_.names.emplace_back();
  Value v{this, program_.size() - 1};
  if (is_effect(inst.op)) return v;
  if (name.empty()) {
    program_.names.back() = std::to_string(v.id);
    names_.insert(program_.names.back());
    return v;
  }
  return v.named(name);
}

BufferRef Builder::buffer(std::string name, DTypeSet dtypes, Access access, Granularity at) {
  program_.buffers.push_back(
      {.name = std::move(name), .dtypes = dtypes, .access = access, .at = at});
  return {static_cast<int32_t>(program_.buffers.size()) - 1};
}

void Builder::only_of(BufferRef buffer, uint64_t from, uint64_t below) {
  Buffer& b = program_.buffers[static_cast<size_t>(buffer.slot)];
  b.from = from;
  b.below = below;
}

void Builder::init_zero(BufferRef buffer) {
  program_.buffers[static_cast<size_t>(buffer.slot)].init = Buffer::Init::zero;
}
void Builder::init_copy(BufferRef buffer, BufferRef from) {
  Buffer& b = program_.buffers[static_cast<size_t>(buffer.slot)];
  b.init = Buffer::Init::copy;
  b.init_from = from.slot;
}

StateRef Builder::state(std::string name, Type type, bool shared, double initial) {
  program_.states.push_back({std::move(name), type, shared, false, literal(type.dtype, initial)});
  return {static_cast<int32_t>(program_.states.size()) - 1};
}

StateRef Builder::report(std::string name, Type type) {
  program_.states.push_back({std::move(name), type, false, true, {}});
  return {static_cast<int32_t>(program_.states.size()) - 1};
}

TableRef Builder::table(std::string name, std::vector<float> values) {
  program_.tables.push_back({std::move(name), std::move(values)});
  return {static_cast<int32_t>(program_.tables.size()) - 1};
}

Value Builder::arg(const std::string& name, Type type, std::optional<double> fallback) {
  check_internal(program_.insts.size() == program_.args.size(), "args come first");
  Inst inst{.op = Op::arg, .type = type};
  inst.slot = static_cast<int32_t>(program_.args.size());
  std::optional<Bits> bits;
  if (fallback) bits = literal(type.dtype, *fallback);
  program_.args.push_back({name, type, bits});
  return append(inst, name);
}

Value Builder::constant(DType dtype, double value) {
  Inst inst{.op = Op::constant, .type = {dtype, per::step}};
  inst.literal = literal(dtype, value);
  return append(inst, "");
}

Value Builder::load(BufferRef buffer) {
  const Buffer& b = program_.buffers[static_cast<size_t>(buffer.slot)];
  Inst inst{.op = Op::load};
  inst.type = {b.dtypes.size() == 1 ? b.dtypes.only() : DType::bound, b.at};
  if (b.dtypes.size() != 1) inst.type.buffer = buffer.slot;
  inst.slot = buffer.slot;
  return append(inst, "");
}

Value Builder::read(StateRef state) {
  Inst inst{.op = Op::read, .type = program_.states[static_cast<size_t>(state.slot)].type};
  inst.slot = state.slot;
  return append(inst, "");
}

Value Builder::present() {
  return append({.op = Op::present, .type = {DType::boolean, per::tensor}}, "");
}
Value Builder::tensor_index() {
  return append({.op = Op::tensor_index, .type = {DType::i32, per::tensor}}, "");
}
Value Builder::element_count() {
  return append({.op = Op::element_count, .type = {DType::i64, per::tensor}}, "");
}
Value Builder::column_count() {
  return append({.op = Op::column_count, .type = {DType::i64, per::tensor}}, "");
}
Value Builder::element_index() {
  return append({.op = Op::element_index, .type = {DType::i32, per::element}}, "");
}

Value Builder::random(Value seed, Value count, Value stream) {
  return append({.op = Op::random,
                 .type = {DType::i32, per::element},
                 .operands = {seed.id, count.id, stream.id}},
                "");
}

Value Builder::lookup(TableRef table, Value code) {
  return ask_table(Op::lookup, table, code, DType::f32);
}
Value Builder::nearest(TableRef table, Value v) {
  return ask_table(Op::nearest, table, v, DType::i32);
}
Value Builder::ask_table(Op op, TableRef table, Value v, DType result) {
  Inst inst{.op = op, .type = v.type()};
  inst.type.dtype = result;
  inst.operands[0] = v.id;
  inst.slot = table.slot;
  return append(inst, "");
}

Value Builder::apply(Op op, std::initializer_list<Value> operands) {
  Inst inst{.op = op};
  int i = 0;
  for (Value v : operands) {
    inst.operands[static_cast<size_t>(i++)] = v.id;
    inst.type = i == 1 ? v.type() : join(inst.type, v.type());
  }
  inst.type.buffer = -1;
  TypeRule rule = info(op).rule;
  if (rule == TypeRule::classify || rule == TypeRule::compare || rule == TypeRule::logical) {
    inst.type.dtype = DType::boolean;
  } else {
    inst.type.dtype = (operands.begin() + (op == Op::select ? 1 : 0))->type().dtype;
  }
  return append(inst, "");
}

Value Builder::cast(Value v, DType to) {
  if (v.type().dtype == to) return v;
  Inst inst{.op = Op::cast, .type = v.type().of(to)};
  inst.operands[0] = v.id;
  return append(inst, "");
}

Value Builder::bitcast(Value v, DType to) {
  Inst inst{.op = Op::bitcast, .type = v.type().of(to)};
  inst.operands[0] = v.id;
  return append(inst, "");
}

Value Builder::cast_sr(Value v, Value random, DType to) {
  Type fine = join(v.type(), random.type());
  return append({.op = Op::cast_sr, .type = fine.of(to), .operands = {v.id, random.id, kNoValue}},
                "");
}

Value Builder::cast_to_buffer(Value v, BufferRef buffer) {
  const Buffer& b = program_.buffers[static_cast<size_t>(buffer.slot)];
  if (b.dtypes.size() == 1) return cast(v, b.dtypes.only());
  Inst inst{.op = Op::cast, .type = v.type().of(DType::bound)};
  inst.type.buffer = buffer.slot;
  inst.operands[0] = v.id;
  return append(inst, "");
}

Value Builder::reduce(Op op, Value v, Granularity to) {
  Inst inst{.op = op, .type = {v.type().dtype, to}};
  inst.operands[0] = v.id;
  return append(inst, "");
}

void Builder::stage(std::string name) {
  Inst inst{.op = Op::stage};
  inst.slot = static_cast<int32_t>(program_.stages.size());
  program_.stages.push_back(std::move(name));
  append(inst, "");
}

void Builder::store(BufferRef buffer, Value v, Value predicate) {
  Inst inst{.op = Op::store, .type = v.type(), .predicate = predicate.id};
  inst.operands[0] = v.id;
  inst.slot = buffer.slot;
  append(inst, "");
}

void Builder::write(StateRef state, Value v, Value predicate) {
  Inst inst{.op = Op::write, .type = v.type(), .predicate = predicate.id};
  inst.operands[0] = v.id;
  inst.slot = state.slot;
  append(inst, "");
}

void Builder::insert(const Program& step, std::map<std::string, Value>& values) {
  std::vector<Value> own;
  for (ValueId v = 0; v < step.size(); ++v) {
    Inst inst = step[v];
    auto slot = static_cast<size_t>(inst.slot);
    if (inst.op == Op::load || inst.op == Op::arg) {
      own.push_back(
          values.at(inst.op == Op::load ? step.buffers[slot].name : step.args[slot].name));
      continue;
    }
    for (int i = 0; i < inst.arity(); ++i) {
      ValueId& operand = inst.operands[static_cast<size_t>(i)];
      operand = own[static_cast<size_t>(operand)].id;
    }
    if (inst.op == Op::store) {
      values[step.buffers[slot].name] = {this, inst.operands[0]};
      own.emplace_back();
      continue;
    }
    bool is_elementwise = !is_effect(inst.op) && !is_folded(inst) && !reads_table(inst.op);
    check_internal(is_elementwise && inst.op != Op::read,
                   "a step that is inserted has elementwise code only");
    own.push_back(append(inst, step.names[static_cast<size_t>(v)]));
  }
}

Program Builder::finish() {
  verify(program_);
  return std::move(program_);
}

}  // namespace stepfuse
