// CUDA text of the element loop: tiles are loaded, computed and stored. Knows the schedule.
#include <bit>
#include <map>

#include <fmt/format.h>

#include "compiler/cuda/ops.hpp"
#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {
namespace {

// Whether a scratch array, and its index: buffers come before scratch arrays.
using ArrayId = std::pair<bool, int32_t>;

// An array over the elements of a tensor: a buffer or a scratch array.
struct Array {
  ArrayId id;
  std::string name;
  std::string base;  // expression of its element 0 of the tensor
  DType dtype = DType::f32;
  bool loaded = false;
  bool stored = false;
  size_t traffic() const { return size_of(dtype) * ((loaded ? 1 : 0) + (stored ? 1 : 0)); }
};

class BodyEmitter {
 public:
  BodyEmitter(Emission& e, const Body& body, size_t signature)
      : e_(e), p_(e.p), body_(body), signature_(signature) {
    collect_arrays();
    choose_shape();
  }

  // What the text depends on: signatures with an equal key share it.
  std::string key() const {
    std::string key;
    for (const auto& [id, a] : arrays_) key += fmt::format("{} ", name(a.dtype));
    // A cast to a buffer's type may stand where nothing of that buffer is loaded or stored.
    for (ValueId v : body_.code) {
      if (p_[v].type.dtype == DType::bound) key += fmt::format("{} ", name(dtype(v)));
    }
    return key;
  }

  void emit() {
    emit_pointers();
    e_.out.pragma("#pragma unroll 1");
    e_.out.open(
        fmt::format("for (i32 first = i32(work.worker) * {0} - skew; first < length; "
                    "first += {1} * stride)",
                    tile_, tiles_));
    emit_loads();
    emit_elements();
    emit_stores();
    e_.out.close();
  }

 private:
  DType dtype(ValueId v) const { return e_.s.dtype_of(v, signature_); }
  // As an operand: uniform values of bound type are held as f32.
  DType operand_dtype(ValueId v) const {
    if (e_.is_element(v)) return dtype(v);
    DType t = p_[v].type.dtype;
    return t == DType::bound ? DType::f32 : t;
  }

  Array& array(bool scratch, int32_t index) {
    auto [it, added] = arrays_.try_emplace({scratch, index});
    Array& a = it->second;
    if (!added) return a;
    a.id = it->first;
    auto i = static_cast<size_t>(index);
    if (scratch) {
      a.dtype = e_.s.resolve(e_.s.scratch[i], signature_);
      a.name = fmt::format("scratch{}", index);
      a.base = fmt::format("global<{}>(ctx.step.scratch, {}) + tensor.scratch_base",
                           c_type(a.dtype), index);
    } else {
      a.dtype = e_.s.signatures[signature_][i];
      a.name = e_.names.buffer(i);
      a.base = fmt::format("global<{}>(ctx.step.pointers, u64(tensor_index) * {} + {})",
                           c_type(a.dtype), p_.buffers.size(), index);
    }
    return a;
  }
  Array& array(const Kept& k) {
    return k.scratch >= 0 ? array(true, k.scratch) : array(false, k.buffer);
  }

  void collect_arrays() {
    for (const Kept& k : body_.fetches) array(k).loaded = true;
    for (ValueId v : body_.code) {
      if (p_[v].op == Op::load) array(false, p_[v].slot).loaded = true;
    }
    for (const StoreAction& a : body_.stores) array(false, p_[a.store].slot).stored = true;
    for (const Kept& k : body_.keeps) array(k).stored = true;
  }

  // A tile is what makes accesses of the option's width to the widest array (128 bits if that is of
  // 16 bits: a thread has eight lanes); then as many tiles at once as put enough bytes in flight.
  void choose_shape() {
    size_t widest = 0;
    size_t loaded = 0;
    for (const auto& [id, a] : arrays_) {
      widest = std::max(widest, size_of(a.dtype));
      if (a.loaded) loaded += size_of(a.dtype);
    }
    tile_ = widest <= 2 || e_.options.access == 256 ? 8 : 4;
    auto unroll = static_cast<size_t>(e_.options.unroll);
    size_t bytes = std::max<size_t>(1, loaded * static_cast<size_t>(tile_));
    size_t most = 16 * unroll / static_cast<size_t>(tile_);
    tiles_ = static_cast<int>(std::clamp<size_t>(std::bit_floor(64 * unroll / bytes), 1, most));
    if (!body_.reductions.empty()) tiles_ = std::max(tiles_, 8 / tile_);  // eight lanes a thread
    for (const auto& [id, a] : arrays_) {
      if (leader_.empty() || a.traffic() > arrays_.at(leader_id_).traffic()) {
        leader_ = a.name;
        leader_id_ = id;
      }
    }
  }
  int elements() const { return tile_ * tiles_; }

  // The tiles follow the alignment of the array with most traffic; the others are accessed whole
  // where they share it.
  void emit_pointers() {
    for (const auto& [id, a] : arrays_) {
      e_.out.line(fmt::format("const u64 p_{} = address_of({} + chunk.begin);", a.name, a.base));
    }
    e_.out.line(leader_.empty()
                    ? "const i32 skew = 0;"
                    : fmt::format("const i32 skew = skew_of<{}, {}>(p_{});",
                                  c_type(arrays_.at(leader_id_).dtype), tile_, leader_));
    for (const auto& [id, a] : arrays_) {
      e_.out.line(fmt::format("const u32 room_{0} = room_of<{1}, {2}>(p_{0}, skew, length);",
                              a.name, c_type(a.dtype), tile_));
    }
    e_.out.line(fmt::format("const i32 stride = i32(work.workers) * {};", tile_));
    if (has_lanes()) {
      e_.out.line(fmt::format(
          "place = lane_place<{}>(skew, work.worker, work.workers, first_lane);", tile_));
    }
  }
  bool has_lanes() const {
    return std::any_of(body_.reductions.begin(), body_.reductions.end(),
                       [&](ValueId r) { return p_[r].op != Op::reduce_any; });
  }

  std::string access(const Array& a) const {
    std::string_view how = "Plain";
    if (!loaded_later(a.id)) {
      if (e_.options.cache == CudaCache::streaming) how = "Streaming";
      if (e_.options.cache == CudaCache::evict_first) how = "EvictFirst";
    }
    return fmt::format("<{}, {}, {}, {}>", how, c_type(a.dtype), tile_, tiles_);
  }
  // By a phase behind that of this body.
  bool loaded_later(const ArrayId& id) const {
    bool behind = false;
    for (const Phase& phase : e_.s.phases) {
      for (const Body* b : {&phase.body, &phase.otherwise}) {
        if (behind && loads(*b, id)) return true;
      }
      behind |= &phase.body == &body_ || &phase.otherwise == &body_;
    }
    return false;
  }
  bool loads(const Body& b, const ArrayId& id) const {
    auto fetched = [&](const Kept& k) {
      return ArrayId(k.scratch >= 0, k.scratch >= 0 ? k.scratch : k.buffer) == id;
    };
    auto loaded = [&](ValueId v) {
      return p_[v].op == Op::load && ArrayId(false, p_[v].slot) == id;
    };
    return std::any_of(b.fetches.begin(), b.fetches.end(), fetched) ||
           std::any_of(b.code.begin(), b.code.end(), loaded);
  }
  // Words that hold the array's elements.
  std::string words(std::string_view name, const Array& a) const {
    return fmt::format("u32 {}_{}[{}];", name, a.name,
                       static_cast<size_t>(elements()) * size_of(a.dtype) / 4);
  }

  void emit_loads() {
    for (const auto& [id, a] : arrays_) {
      if (!a.loaded) continue;
      e_.out.line(words("in", a));
      e_.out.line(fmt::format("load{0}(in_{1}, p_{1}, room_{1}, first, stride, length);", access(a),
                              a.name));
    }
  }

  void emit_elements() {
    for (const auto& [id, a] : arrays_) {
      if (a.stored) e_.out.line(words("out", a));
    }
    for (ValueId m : masks()) e_.out.line(fmt::format("u32 mask_{} = 0;", e_.names[m]));
    e_.out.pragma("#pragma unroll");
    e_.out.open(fmt::format("for (i32 e = 0; e < {}; ++e)", elements()));
    if (needs_position()) {
      e_.out.line(fmt::format("const i32 at = first + e / {0} * stride + e % {0};", tile_));
    }
    for (const Kept& k : body_.fetches) {
      e_.out.line(fmt::format("const {} {} = {};", c_type(dtype(k.value)), e_.names[k.value],
                              element(array(k))),
                  e_.comment(k.value));
    }
    for (ValueId v : body_.code) {
      e_.out.line(fmt::format("const {} {} = {};", c_type(dtype(v)), e_.names[v], value(v)),
                  e_.comment(v));
    }
    for (ValueId r : body_.reductions) emit_combine(r);
    for (const StoreAction& a : body_.stores) {
      e_.out.line(put(array(false, p_[a.store].slot), stored(a)), e_.comment(a.store));
    }
    for (ValueId m : masks()) e_.out.line(fmt::format("mask_{0} |= u32({0}) << e;", e_.names[m]));
    for (const Kept& k : body_.keeps) {
      e_.out.line(put(array(k), e_.names[k.value]),
                  fmt::format("%{} is kept", p_.names[static_cast<size_t>(k.value)]));
    }
    e_.out.close();
  }
  bool needs_position() const {
    return !body_.reductions.empty() ||
           std::any_of(body_.code.begin(), body_.code.end(),
                       [&](ValueId v) { return p_[v].op == Op::element_index; });
  }

  static std::string element(const Array& a) {
    return fmt::format("get<{}>(in_{}, e)", c_type(a.dtype), a.name);
  }
  static std::string put(const Array& a, const std::string& value) {
    return fmt::format("put<{}>(out_{}, e, bits_of({}));", c_type(a.dtype), a.name, value);
  }

  std::string value(ValueId v) {
    const Inst& inst = p_[v];
    if (inst.op == Op::load) return element(array(false, inst.slot));
    if (inst.op == Op::element_index) {
      return "i32(u32(tensor.offset) + u32(chunk.begin) + u32(inside(at, length)))";
    }
    std::string operands[3];
    for (int i = 0; i < inst.arity(); ++i) {
      operands[i] = e_.names[inst.operands[static_cast<size_t>(i)]];
    }
    ValueId decides = inst.operands[inst.op == Op::select ? 1 : 0];
    return expression(inst.op, operand_dtype(decides), dtype(v), operands[0], operands[1],
                      operands[2]);
  }

  std::string stored(const StoreAction& a) const {
    ValueId v = p_[a.store].operands[0];
    DType to = e_.s.signatures[signature_][static_cast<size_t>(p_[a.store].slot)];
    return cast_expression(operand_dtype(v), to, e_.names[v]);
  }

  void emit_combine(ValueId r) {
    const std::string& operand = e_.names[p_[r].operands[0]];
    const std::string& acc = e_.names[r];
    if (p_[r].op == Op::reduce_any) {
      e_.out.line(fmt::format("acc_{} |= {} & (u32(at) < u32(length));", acc, operand),
                  e_.comment(r));
    } else {
      e_.out.line(fmt::format("acc_{0}[e % 8] = u32(at) < u32(length) ? "
                              "{1}::combine(acc_{0}[e % 8], {2}) : acc_{0}[e % 8];",
                              acc, combiner(p_[r].op), operand),
                  e_.comment(r));
    }
  }

  // Element-domain predicates of stores.
  ValueSet masks() const {
    ValueSet out;
    for (const StoreAction& a : body_.stores) {
      if (a.predicate != kNoValue && e_.is_element(a.predicate)) out.insert(a.predicate);
    }
    return out;
  }

  void emit_stores() {
    for (const StoreAction& a : body_.stores) {
      const Array& target = array(false, p_[a.store].slot);
      std::string condition;
      std::string mask;
      if (a.predicate != kNoValue) {
        const std::string& predicate = e_.names[a.predicate];
        if (e_.is_element(a.predicate)) {
          mask = ", mask_" + predicate;
        } else {
          condition = fmt::format("if ({}) ", predicate);
        }
      }
      emit_store(target, condition, mask);
    }
    for (const Kept& k : body_.keeps) emit_store(array(k), "", "");
  }
  void emit_store(const Array& a, const std::string& condition, const std::string& mask) {
    e_.out.line(fmt::format("{0}store{1}(out_{2}, p_{2}, room_{2}, first, stride, length{3});",
                            condition, access(a), a.name, mask));
  }

  Emission& e_;
  const Program& p_;
  const Body& body_;
  size_t signature_;
  std::map<ArrayId, Array> arrays_;
  std::string leader_;
  ArrayId leader_id_;
  int tile_ = 4;
  int tiles_ = 1;
};

}  // namespace

void collect_uniform_operands(const Emission& e, const Body& body, ValueSet* used) {
  auto add = [&](ValueId v) {
    if (v != kNoValue && !e.is_element(v) && !e.is_constant(v)) used->insert(v);
  };
  for (ValueId v : body.code) for_each_operand(e.p[v], add);
  for (const StoreAction& a : body.stores) {
    add(e.p[a.store].operands[0]);
    add(a.predicate);
  }
}

void emit_body(Emission& e, const Body& body) {
  std::map<std::string, std::vector<size_t>> variants;
  for (size_t s = 0; s < e.s.signatures.size(); ++s) {
    variants[BodyEmitter(e, body, s).key()].push_back(s);
  }
  if (variants.size() == 1) {
    BodyEmitter(e, body, 0).emit();
    return;
  }
  e.out.open("switch (chunk.signature)");
  for (size_t s = 0; s < e.s.signatures.size(); ++s) {
    const auto& same = variants[BodyEmitter(e, body, s).key()];
    if (same[0] != s) continue;
    for (size_t other : same) {
      if (other != same.back()) e.out.line(fmt::format("case {}:", other));
    }
    e.out.open(fmt::format("case {}:", same.back()));
    BodyEmitter(e, body, s).emit();
    e.out.line("break;");
    e.out.close();
  }
  e.out.close();
}

}  // namespace stepfuse::cuda
