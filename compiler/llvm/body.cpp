// The vector loop over a chunk. Knows the plan, the kernel ABI, and the expression table.
//
// The loop covers the whole vectors of the chunk; compiler/llvm/tail.cpp handles the remaining elements.
#include "compiler/llvm/body.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <set>

#include "compiler/llvm/prelude.hpp"
#include "ir/semantics/reduction.hpp"

namespace stepfuse::llvm {
namespace {
constexpr int kPrefetchBytes = 8192;
}  // namespace

const std::string& Storage::get(const std::string& name, int elements) {
  std::string& result = names_[name];
  if (result.empty()) result = f_.allocate(name, fmt::format("[{} x float]", elements), 64);
  return result;
}
const std::string& Storage::lanes(int reduction) {
  return get(fmt::format("lanes.r{}", reduction), kLanes);
}
const std::string& Storage::lanes_tail(int reduction) {
  return get(fmt::format("lanes.tail.r{}", reduction), lanes_);
}
const std::string& Storage::tail(size_t stream) {
  return get(fmt::format("tail.{}", stream), lanes_);
}

void BodyEmitter::emit(const std::string& is_large) {
  collect();
  int shift = std::countr_zero(static_cast<unsigned>(m_.lanes));
  vectors_count_ = f_.set("vectors", "lshr i64 {}, {}", chunk_.length, shift);
  tail_count_ = f_.set("tail", "and i64 {}, {}", chunk_.length, m_.lanes - 1);
  splat_uniforms();
  open_streams(is_large);
  open_lanes();
  auto walk = [&] {
    zero_lanes();
    body_.unit > 1 ? emit_units() : keeps_tails_in_place() ? emit_whole() : emit_passes();
  };
  auto walk_and_fold = [&] {
    if (walks_columns()) {
      std::string full = f_.set("full", "icmp eq i64 {}, {}", chunk_.length, kPieceElements);
      f_.if_("columns", full, [&] { emit_columns(); }, walk);
    } else {
      walk();
    }
    fold();
  };
  if (!has_short_chunks()) return walk_and_fold();
  std::string is_short = f_.set("short", "icmp ule i64 {}, {}", chunk_.length, kShortElements);
  f_.if_("few", is_short, [&] { emit_short(); }, walk_and_fold);
}

// --- the arrays that the body accesses

void BodyEmitter::collect() {
  for (const plan::ArrayUse& use : body_.arrays) {
    Stream s;
    s.use = &use;
    s.dtype = use.dtype;
    s.read_first = use.loaded || use.predicated;
    streams_.push_back(std::move(s));
  }
  for (const plan::Inst& inst : body_.code) {
    uses_index_ |= inst.op == Op::element_index || inst.op == Op::random;
  }
  for (const plan::Combine& c : body_.reductions) {
    const plan::Reduction& reduction = plan_.reduction(c.reduction);
    Reducer r;
    r.name = name(reduction.value);
    r.text = plan_[reduction.value].text;
    r.index = c.reduction;
    r.operand = c.operand;
    r.op = reduction.op;
    r.slot_dtype = reduction.dtype;
    r.dtype = r.op == Op::reduce_any ? DType::i32 : reduction.dtype;
    r.in_lanes = r.op == Op::reduce_add && r.dtype == DType::f32;
    reducers_.push_back(r);
  }
}

// The number of the chunk's first tile among those of its tensor.
std::string BodyEmitter::first_tile(Granularity at) {
  std::string up = f_.set("tiles", "add i64 {}, {}", chunk_.columns, at.columns - 1);
  std::string tiles = f_.set("tiles", "udiv i64 {}, {}", up, at.columns);
  std::string line = f_.set("tile", "udiv i64 {}, {}", chunk_.line, at.rows);
  std::string before = f_.set("tile", "mul i64 {}, {}", line, tiles);
  std::string along = f_.set("tile", "udiv i64 {}, {}", chunk_.in_line, at.columns);
  return f_.set("tile", "add i64 {}, {}", before, along);
}

// Returns the address of the chunk's first value in the array.
std::string BodyEmitter::base_of(const Stream& s) {
  using Owner = plan::Array::Owner;
  const plan::Array& array = plan_.array(*s.use);
  size_t size = size_of(s.dtype);
  int32_t block = block_of(array.at);
  auto element = [&](const std::string& index, size_t bytes) {
    return u_.element(array.owner, array.index, index, bytes, array.name);
  };
  auto values = [&](const std::string& elements) {  // values before this many elements
    return block == 1 ? elements : f_.set("values", "udiv i64 {}, {}", elements, block);
  };
  auto begin = [&] { return needs_rows(array.at) ? first_tile(array.at) : values(chunk_.begin); };
  if (array.owner == Owner::caller) {
    return u_.element_of(chunk_.tensor, array.index, begin(), size, array.name);
  }
  if (array.owner == Owner::scratch) {
    // Positions are counted in the array's widest storage type, so that tensors never overlap.
    std::string of_tensor = element(values(chunk_.scratch_base), array.max_bytes);
    return f_.address(array.name, of_tensor, begin(), size);
  }
  if (!array.is_combined()) return element(chunk_.column, size);
  std::string row = f_.set("base", "mul i64 {}, {}", u_.tensor_count, plan_.base_of(array.at));
  std::string at = f_.set("base", "add i64 {}, {}", row, chunk_.tensor);
  std::string place = f_.address("base", u_.bases, at, sizeof(uint64_t));
  std::string base = f_.set("base", "load i64, ptr {}", place);
  return element(f_.set("tile", "add i64 {}, {}", base, begin()), size);
}

void BodyEmitter::open_streams(const std::string& is_large) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    Stream& s = streams_[i];
    const plan::Array& array = plan_.array(*s.use);
    s.tail = storage_.tail(i);
    s.base = base_of(s);
    if (int32_t rows = plan::combined_rows(array, *s.use)) {
      std::string of_tile = f_.set("tile.line", "urem i64 {}, {}", chunk_.line, rows);
      s.begins = f_.set("tile.begins", "icmp eq i64 {}, 0", of_tile);
    }
    if (!s.use->stored || s.read_first || block_of(array.at) > 1) continue;
    // A cache line that is only written need not be read first. In-place stores that bypass the caches
    // would be several times slower.
    std::string address = f_.set("address", "ptrtoint ptr {} to i64", s.base);
    std::string low = f_.set("address", "and i64 {}, {}", address, vector_bytes(s.dtype) - 1);
    std::string aligned = f_.set("aligned", "icmp eq i64 {}, 0", low);
    s.streams = f_.set("streams", "and i1 {}, {}", aligned, is_large);
  }
}

void BodyEmitter::open_lanes() {
  bool has_lanes = false;
  for (Reducer& r : reducers_) {
    if (r.in_lanes) {
      has_lanes = true;
      r.array = storage_.lanes(r.index);
      r.tail = storage_.lanes_tail(r.index);
    } else {
      r.array = storage_.lanes_tail(r.index);
      set_register(r, identity(r));
    }
  }
  if (!has_lanes) return;
  // Lanes count from the chunk's first element: lanes that meet have fixed distances, wherever they begin. Lanes beyond
  // the chunk's length stay at the identity and need not be folded.
  m_.declarations.insert("declare i64 @llvm.ctlz.i64(i64, i1)");
  std::string last = f_.set("lane.count", "sub i64 {}, 1", chunk_.length);
  std::string some = f_.set("lane.count", "or i64 {}, {}", last, m_.lanes - 1);
  std::string lead = f_.set("lane.count", "call i64 @llvm.ctlz.i64(i64 {}, i1 false)", some);
  std::string power = f_.set("lane.count", "sub i64 64, {}", lead);
  std::string few = f_.set("lane.count", "shl i64 1, {}", power);
  std::string is_short = f_.set("lane.short", "icmp ult i64 {}, {}", few, kLanes);
  lane_count_ = f_.set("lane.count", "select i1 {}, i64 {}, i64 {}", is_short, few, kLanes);
}

// Sets the lanes to their identities.
void BodyEmitter::zero_lanes() {
  for (const Reducer& r : reducers_) {
    if (!r.in_lanes) continue;
    use_helper(m_, "sf_zero_lanes");
    f_.line("call void @sf_zero_lanes(ptr {}, i64 {})", r.array, lane_count_);
  }
}

void BodyEmitter::need_vector(plan::Id v) {
  const plan::Value& value = plan_[v];
  if (plan_.is_element(v) || vectors_.contains(v)) return;
  vectors_[v] = value.is_constant ? vector_.constant(value.dtype, value.literal)
                                  : vector_.splat(value.dtype, u_[v], value.name);
}

void BodyEmitter::splat_uniforms() {
  for (const plan::Inst& inst : body_.code) {
    if (inst.op == Op::random) {
      prepare_draw(inst);
    } else {
      for_each_operand(inst, [&](plan::Id o) { need_vector(o); });
      prepare_division(inst);
    }
  }
  for (size_t k = 0; k < body_.stores.size(); ++k) {
    const plan::Store& s = body_.stores[k];
    DType to = body_.arrays[static_cast<size_t>(s.array)].dtype;
    if (s.from == to) {
      need_vector(s.value);
    } else {
      std::string scalar = scalar_.cast(u_[s.value], s.from, to, name(s.value));
      narrowed_[k] = vector_.splat(to, scalar, name(s.value));
    }
  }
}

// --- the loop

void BodyEmitter::emit_loop(const std::string& count) {
  f_.loop("i", "0", count, [&](const std::string& i) {
    for (Stream& s : streams_) {
      s.address = f_.address("at", s.pointer, i, vector_bytes(s.dtype));
    }
    emit_element(i);
  });
}

// A loop that updates nothing in place waits for the memory's latency, because the processor's own
// prefetching stays within a page. Prefetching past the end of an array does no harm.
void BodyEmitter::prefetch() {
  m_.declarations.insert("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)");
  for (const Stream& s : streams_) {
    if (!s.read_first) continue;
    std::string ahead =
        f_.set("ahead", "getelementptr i8, ptr {}, i64 {}", s.address, kPrefetchBytes);
    f_.line("call void @llvm.prefetch.p0(ptr {}, i32 0, i32 3, i32 1)", ahead);
  }
}

void BodyEmitter::emit_element(const std::string& i) {
  bool in_place = std::any_of(streams_.begin(), streams_.end(), [&](const Stream& s) {
    return s.use->stored && plan_.array(*s.use).owner == plan::Array::Owner::caller;
  });
  if (!in_place && follows_few_streams()) prefetch();
  emit_code(i);
  for (const Reducer& r : reducers_) {
    f_.comment(r.text);
    reduce(r, i);
  }
  emit_stores();
  f_.end_comment();
}

void BodyEmitter::emit_code(const std::string& i) {
  for (const plan::Inst& inst : body_.code) {
    f_.comment(plan_[inst.value].text);
    evaluate(inst, i);
  }
}

// The first row of a tile that rows are combined in is the identity.
std::string BodyEmitter::or_identity(const Stream& s, Ops& ops, const std::string& loaded,
                                     const std::string& hint) {
  const plan::Array& array = plan_.array(*s.use);
  if (s.begins.empty()) return loaded;
  Bits identity = reduction_identity(plan_.reduction(array.index).op, s.dtype);
  std::string type = ops.type(s.dtype);
  return f_.set(hint, "select i1 {}, {} {}, {} {}", s.begins, type, ops.constant(s.dtype, identity),
                type, loaded);
}

void BodyEmitter::evaluate(const plan::Inst& inst, const std::string& i) {
  const std::string& hint = name(inst.value);
  std::string& result = vectors_[inst.value];
  if (inst.op == Op::load) {
    const Stream& s = streams_[static_cast<size_t>(inst.index)];
    result = active_.empty() ? vector_.load(s.dtype, s.address, hint) : load_active(s, hint);
    result = or_identity(s, vector_, result, hint);
    return;
  }
  if (inst.op == Op::random) {
    result = draw(inst, i);
    return;
  }
  if (inst.op == Op::element_index) {
    std::string walked = f_.set(hint, "mul i64 {}, {}", i, m_.lanes);
    std::string first = f_.set(hint, "add i64 {}, {}", pass_position_, walked);
    std::string low = f_.set(hint, "trunc i64 {} to i32", first);
    result = f_.set(hint, "add {} {}, {}", vector_.type(DType::i32),
                    vector_.splat(DType::i32, low, hint), steps(m_.lanes));
    return;
  }
  auto divisor = inst.op == Op::div ? divisors_.find(inst.operands[1]) : divisors_.end();
  if (divisor != divisors_.end() && plan_.is_element(inst.operands[0])) {
    result = divide(inst, divisor->second);
    return;
  }
  std::array<std::string, 3> args;
  auto count = static_cast<size_t>(inst.arity());
  for (size_t k = 0; k < count; ++k) args[k] = vectors_.at(inst.operands[k]);
  result = vector_.compute(plan_, inst, std::span(args).first(count), hint);
}

// --- stores

void BodyEmitter::emit_stores() {
  std::vector<size_t> stores(body_.stores.size());
  std::iota(stores.begin(), stores.end(), 0);
  emit_stores(stores);
}

void BodyEmitter::emit_stores(std::span<const size_t> stores) {
  std::set<size_t> is_done;
  for (size_t k : stores) {
    if (is_done.contains(k)) continue;
    plan::Id predicate = body_.stores[k].predicate;
    if (predicate == plan::kNone || plan_.is_element(predicate)) {
      store(k, predicate);
      continue;
    }
    // All stores under one condition of coarser granularity share a branch.
    f_.if_("store", u_[predicate], [&] {
      for (size_t j : stores) {
        if (body_.stores[j].predicate != predicate) continue;
        store(j, plan::kNone);
        is_done.insert(j);
      }
    });
  }
}

void BodyEmitter::store(size_t index, plan::Id predicate) {
  const plan::Store& action = body_.stores[index];
  f_.comment(action.text);
  const Stream& s = streams_[static_cast<size_t>(action.array)];
  auto narrowed = narrowed_.find(index);
  std::string value = narrowed != narrowed_.end() ? narrowed->second : vectors_.at(action.value);
  if (predicate != plan::kNone) {
    std::string old =
        active_.empty() ? vector_.load(s.dtype, s.address, "old") : load_active(s, "old");
    value =
        f_.set("new", "select {} {}, {} {}, {} {}", vector_.type(DType::boolean),
               vectors_.at(predicate), vector_.type(s.dtype), value, vector_.type(s.dtype), old);
  }
  store_vector(s, value);
}

void BodyEmitter::store_vector(const Stream& s, const std::string& value) {
  if (!active_.empty()) return store_active(s, value);
  auto through = [&] { vector_.store(s.dtype, value, s.address); };
  if (s.streams.empty() || s.dtype == DType::boolean) return through();
  auto past = [&] {
    f_.line("store {} {}, ptr {}, align {}, !nontemporal !0", vector_.type(s.dtype), value,
            s.address, vector_bytes(s.dtype));
  };
  f_.if_("past.caches", s.streams_in_pass, past, through);
}

}  // namespace stepfuse::llvm
