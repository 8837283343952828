// A body with blocks, unit by unit. Knows the plan, the kernel ABI, and the reduction order.
//
// A unit has as many elements as the largest possible block, so that small blocks have long loops, too.
// Values that a block, or a later level, needs of it are kept on the stack. For the unfinished unit at a
// chunk's end, the arrays are copied to the stack and back, so that nothing outside the chunk is ever
// accessed.
#include <algorithm>
#include <array>
#include <set>

#include "compiler/llvm/body.hpp"
#include "ir/semantics/reduction.hpp"

namespace stepfuse::llvm {

const std::string& Storage::unit(std::string_view purpose, size_t number) {
  return get(fmt::format("{}.{}", purpose, number), kLargestBlock);
}

void BodyEmitter::emit_units() {
  for (size_t i = 0; i < streams_.size(); ++i) streams_[i].tail = storage_.unit("unit", i);
  for (const plan::Inst& inst : body_.code) {
    if (!inst.kept) continue;
    stack_arrays_[inst.value] = {storage_.unit("kept", stack_arrays_.size()), inst.out,
                                 block_of(plan_[inst.value].at)};
  }
  for (Reducer& r : reducers_) r.pointer = r.array;
  f_.loop(
      "first", "0", chunk_.length,
      [&](const std::string& first) {
        unit_.first = first;
        emit_unit();
      },
      kLargestBlock);
}

void BodyEmitter::emit_unit() {
  unit_.left = f_.set("left", "sub i64 {}, {}", chunk_.length, unit_.first);
  unit_.ragged = f_.set("ragged", "icmp ult i64 {}, {}", unit_.left, kLargestBlock);
  unit_.size =
      f_.set("size", "select i1 {}, i64 {}, i64 {}", unit_.ragged, unit_.left, kLargestBlock);
  pass_position_ = f_.set("position", "add i64 {}, {}", chunk_.position, unit_.first);
  for (Stream& s : streams_) {
    std::string at = f_.set("at", "udiv i64 {}, {}", unit_.first, block_of(s));
    s.in_place = f_.address("place", s.base, at, size_of(s.dtype));
    s.pointer = f_.set("p", "select i1 {}, ptr {}, ptr {}", unit_.ragged, s.tail, s.in_place);
    if (s.streams.empty()) continue;
    std::string whole = f_.set("whole", "xor i1 {}, true", unit_.ragged);
    s.streams_in_pass = f_.set("streams", "and i1 {}, {}", s.streams, whole);
  }
  copy_unit(true);
  for (const plan::Pass& pass : body_.passes) {
    // Registers belong to the loop that made them.
    std::map<plan::Id, std::string> shared = vectors_;
    pass.block == 1 ? emit_elements(pass) : emit_blocks(pass);
    vectors_ = std::move(shared);
  }
  copy_unit(false);
}

// Returns the number of blocks, or vectors, that the unit's elements fill.
std::string BodyEmitter::count_in_unit(int elements) {
  std::string up = f_.set("count", "add i64 {}, {}", unit_.size, elements - 1);
  return f_.set("count", "udiv i64 {}, {}", up, elements);
}

// Copies between the arrays and the stack if the unit is the chunk's last one and not complete.
void BodyEmitter::copy_unit(bool in) {
  f_.if_(in ? "unit.in" : "unit.out", unit_.ragged, [&] {
    for (const Stream& s : streams_) {
      if (in ? !s.read_first : !s.use->stored) continue;
      f_.loop("copied", "0", count_in_unit(block_of(s)), [&](const std::string& i) {
        std::string from = f_.address("from", in ? s.in_place : s.tail, i, size_of(s.dtype));
        std::string to = f_.address("to", in ? s.tail : s.in_place, i, size_of(s.dtype));
        std::string type = memory_type_text(s.dtype, 1);
        std::string v = f_.set("v", "load {}, ptr {}, align 1", type, from);
        f_.line("store {} {}, ptr {}, align 1", type, v, to);
      });
    }
  });
}

void BodyEmitter::emit_elements(const plan::Pass& pass) {
  decode_bytes(pass);
  f_.loop("vector", "0", count_in_unit(m_.lanes), [&](const std::string& i) {
    for (Stream& s : streams_) {
      if (block_of(s) == 1) s.address = f_.address("at", s.pointer, i, vector_bytes(s.dtype));
    }
    for (size_t input : pass.inputs) {
      plan::Id v = body_.code[input].value;
      const StackArray& k = stack_arrays_.at(v);
      if (k.block == 1) {
        vectors_[v] =
            vector_.load(k.dtype, f_.address("at", k.array, i, vector_bytes(k.dtype)), name(v));
      } else if (k.block < m_.lanes) {
        vectors_[v] = load_short_blocks(k, i, name(v));
      } else {
        std::string block = f_.set("block", "udiv i64 {}, {}", i, k.block / m_.lanes);
        std::string at = f_.address("at", k.array, block, size_of(k.dtype));
        vectors_[v] = vector_.splat(k.dtype, scalar_.load(k.dtype, at, name(v)), name(v));
      }
    }
    for (const plan::Inst& inst : body_.code_of(pass)) {
      f_.comment(plan_[inst.value].text);
      auto decoded = decoded_.find(inst.value);
      auto looked_up = looked_up_.find(inst.value);
      if (looked_up != looked_up_.end()) {
        const auto& [function, stream] = looked_up->second;
        vectors_[inst.value] = look_up(function, streams_[stream]);
      } else if (decoded == decoded_.end()) {
        evaluate(inst, i);
      } else {
        std::string at = f_.address("at", decoded->second, i, vector_bytes(DType::f32));
        vectors_[inst.value] = vector_.load(DType::f32, at, name(inst.value));
      }
      auto kept = stack_arrays_.find(inst.value);
      if (kept == stack_arrays_.end()) continue;
      std::string at = f_.address("at", kept->second.array, i, vector_bytes(inst.out));
      vector_.store(inst.out, vectors_.at(inst.value), at);
    }
    combine_unit(pass, i);
    emit_stores(pass.stores);
    f_.end_comment();
  });
}

// Elements behind the chunk's end change no lane.
void BodyEmitter::combine_unit(const plan::Pass& pass, const std::string& i) {
  if (pass.reductions.empty()) return;
  std::string walked = f_.set("walked", "mul i64 {}, {}", i, m_.lanes);
  std::string rest = f_.set("rest", "sub i64 {}, {}", unit_.size, walked);
  std::string active = active_lanes(rest);
  std::string vectors = f_.set("i", "udiv i64 {}, {}", unit_.first, m_.lanes);
  std::string of_chunk = f_.set("i", "add i64 {}, {}", vectors, i);
  for (size_t reduction : pass.reductions) {
    const Reducer& r = reducers_[reduction];
    f_.comment(r.text);
    std::string& operand = vectors_.at(r.operand);
    std::string given = operand;
    DType t = r.op == Op::reduce_any ? DType::boolean : r.dtype;
    operand = f_.set("here", "select {} {}, {} {}, {} {}", vector_.type(DType::boolean), active,
                     vector_.type(t), given, vector_.type(t),
                     vector_.constant(t, reduction_identity(r.op, t)));
    reduce(r, of_chunk);
    vectors_.at(r.operand) = given;
  }
}

// Elements behind the chunk's end become the identity, each time that a part `i` of `block` elements with some of them
// is reduced.
void BodyEmitter::fill_with_identities(const plan::Inst& inst, const StackArray& k,
                                       const std::string& i, int block) {
  std::string first = f_.set("end", "mul i64 {}, {}", i, block);
  std::string behind = f_.set("end", "add i64 {}, {}", first, block);
  std::string beyond = f_.set("beyond", "icmp ugt i64 {}, {}", behind, unit_.size);
  f_.if_("fill", beyond, [&] {
    f_.loop("filling", unit_.size, behind, [&](const std::string& at) {
      scalar_.store(k.dtype, scalar_.constant(k.dtype, reduction_identity(inst.op, k.dtype)),
                    f_.address("at", k.array, at, size_of(k.dtype)));
    });
  });
}

// Magnitudes and NaNs sort like their bits as integers; the identity's bits are a negative integer.
bool BodyEmitter::reduces_by_bits(const plan::Inst& inst) const {
  return inst.op == Op::reduce_max && stack_arrays_.at(inst.operands[0]).dtype == DType::f32 &&
         std::any_of(body_.code.begin(), body_.code.end(), [&](const plan::Inst& i) {
           return i.value == inst.operands[0] && i.op == Op::abs;
         });
}

// Reduces by halving: combines the upper half of the vectors of block `i` into the lower half, until one is
// left.
std::string BodyEmitter::halved(const plan::Inst& inst, DType t, const std::string& i) {
  const StackArray& k = stack_arrays_.at(inst.operands[0]);
  int block = block_of(plan_[inst.value].at);
  std::string first = f_.set("at", "mul i64 {}, {}", i, block);
  std::string base = f_.address("at", k.array, first, size_of(k.dtype));
  std::vector<std::string> parts;
  for (int v = 0; v < block / m_.lanes; ++v) {
    std::string at = f_.address("at", base, std::to_string(v), vector_bytes(k.dtype));
    parts.push_back(vector_.load(t, at, name(inst.operands[0])));
  }
  for (size_t d = parts.size() / 2; d > 0; d /= 2) {
    for (size_t v = 0; v < d; ++v) parts[v] = combined_block(inst, t, parts[v], parts[v + d]);
  }
  return parts[0];
}

std::string BodyEmitter::combined_block(const plan::Inst& inst, DType t, const std::string& a,
                                        const std::string& b) {
  std::array<std::string, 2> args = {a, b};
  return vector_.apply(reduction_combiner(inst.op), t, t, args, name(inst.value));
}

// Reduces a block that has fewer elements than a vector, by scalars.
std::string BodyEmitter::reduce_short_block(const plan::Inst& inst, const std::string& i) {
  const StackArray& k = stack_arrays_.at(inst.operands[0]);
  auto block = static_cast<size_t>(block_of(plan_[inst.value].at));
  std::string first = f_.set("at", "mul i64 {}, {}", i, block);
  std::string base = f_.address("at", k.array, first, size_of(k.dtype));
  std::vector<std::string> values;
  for (size_t e = 0; e < block; ++e) {
    std::string at = f_.address("at", base, std::to_string(e), size_of(k.dtype));
    values.push_back(scalar_.load(k.dtype, at, name(inst.operands[0])));
  }
  for (size_t d = block / 2; d > 0; d /= 2) {
    for (size_t e = 0; e < d; ++e) {
      std::array<std::string, 2> args = {values[e], values[e + d]};
      values[e] =
          scalar_.apply(reduction_combiner(inst.op), k.dtype, k.dtype, args, name(inst.value));
    }
  }
  return values[0];
}

// Loads what the elements of vector `i` share in blocks with fewer elements than a vector.
std::string BodyEmitter::load_short_blocks(const StackArray& k, const std::string& i,
                                           const std::string& hint) {
  int blocks = m_.lanes / k.block;
  std::string first = f_.set("block", "mul i64 {}, {}", i, blocks);
  std::string base = f_.address("at", k.array, first, size_of(k.dtype));
  std::string all;
  for (int b = 0; b < blocks; ++b) {
    std::string at = f_.address("at", base, std::to_string(b), size_of(k.dtype));
    std::string own = vector_.splat(k.dtype, scalar_.load(k.dtype, at, hint), hint);
    std::string mask;  // the lanes of the blocks before stay, and the others are this block's
    for (int lane = 0; lane < m_.lanes; ++lane) {
      mask += fmt::format("{}i32 {}", lane == 0 ? "" : ", ", lane < b * k.block ? lane : m_.lanes);
    }
    std::string type = vector_.type(k.dtype);
    all = b == 0 ? own
                 : f_.set(hint, "shufflevector {0} {1}, {0} {2}, <{3} x i32> <{4}>", type, all, own,
                          m_.lanes, mask);
  }
  return all;
}

std::string BodyEmitter::reduce_block(const plan::Inst& inst, const std::string& i) {
  const StackArray& k = stack_arrays_.at(inst.operands[0]);
  fill_with_identities(inst, k, i, block_of(plan_[inst.value].at));
  if (block_of(plan_[inst.value].at) < m_.lanes) return reduce_short_block(inst, i);
  bool by_bits = reduces_by_bits(inst);
  DType t = by_bits ? DType::i32 : k.dtype;
  std::string all = halved(inst, t, i);
  for (int d = m_.lanes / 2; d > 0; d /= 2) {
    all = combined_block(inst, t, all, rotated(all, t, d));
  }
  std::string first_lane =
      f_.set(name(inst.value), "extractelement {} {}, i32 0", vector_.type(t), all);
  return by_bits ? scalar_.apply(Op::bitcast, DType::i32, DType::f32, {&first_lane, 1},
                                 name(inst.value))
                 : first_lane;
}

void BodyEmitter::emit_blocks(const plan::Pass& pass) {
  if (goes_in_vectors(pass)) return emit_block_vectors(pass);
  f_.loop("block", "0", count_in_unit(pass.block), [&](const std::string& i) {
    std::map<plan::Id, std::string> scalars;
    for (size_t input : pass.inputs) {
      plan::Id v = body_.code[input].value;
      const StackArray& k = stack_arrays_.at(v);
      std::string larger = f_.set("block", "udiv i64 {}, {}", i, k.block / pass.block);
      scalars[v] =
          scalar_.load(k.dtype, f_.address("at", k.array, larger, size_of(k.dtype)), name(v));
    }
    auto scalar = [&](plan::Id v) { return plan_.is_element(v) ? scalars.at(v) : u_[v]; };
    auto place = [&](const Stream& s) { return f_.address("at", s.pointer, i, size_of(s.dtype)); };
    for (const plan::Inst& inst : body_.code_of(pass)) {
      f_.comment(plan_[inst.value].text);
      std::string& result = scalars[inst.value];
      if (inst.op == Op::load) {
        const Stream& s = streams_[static_cast<size_t>(inst.index)];
        result = scalar_.load(s.dtype, place(s), name(inst.value));
        result = or_identity(s, scalar_, result, name(inst.value));
      } else if (inst.reduces_block()) {
        result = reduce_block(inst, i);
      } else {
        std::array<std::string, 3> args;
        auto count = static_cast<size_t>(inst.arity());
        for (size_t k = 0; k < count; ++k) args[k] = scalar(inst.operands[k]);
        result = scalar_.compute(plan_, inst, std::span(args).first(count), name(inst.value));
      }
      auto kept = stack_arrays_.find(inst.value);
      if (kept == stack_arrays_.end()) continue;
      scalar_.store(inst.out, result, f_.address("at", kept->second.array, i, size_of(inst.out)));
    }
    for (size_t k : pass.stores) {
      const plan::Store& action = body_.stores[k];
      f_.comment(action.text);
      const Stream& s = streams_[static_cast<size_t>(action.array)];
      std::string value = scalar_.cast(scalar(action.value), action.from, s.dtype, "new");
      if (action.predicate != plan::kNone) {
        std::string old = scalar_.load(s.dtype, place(s), "old");
        value = f_.set("new", "select i1 {}, {} {}, {} {}", scalar(action.predicate),
                       scalar_.type(s.dtype), value, scalar_.type(s.dtype), old);
      }
      scalar_.store(s.dtype, value, place(s));
    }
    f_.end_comment();
  });
}

}  // namespace stepfuse::llvm
