// Random valid programs, grown op by op from pools of typed values. Knows ir.
#include "tests/support/random_program.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "ir/program/builder.hpp"
#include "ir/program/verifier.hpp"
#include "tests/support/hostile_names.hpp"
#include "tests/support/random_declarations.hpp"
#include "tests/support/rng.hpp"

namespace stepfuse::testing {
namespace {

constexpr int kMaxReductions = 5;

class Generator : RandomDeclarations {
 public:
  Generator(uint64_t seed, const ProgramOptions& options)
      : RandomDeclarations(seed), options_(options) {}

  Program run() {
    declare_args();
    declare_buffers();
    int reductions = rng_.chance(10) ? 0 : rng_.between(1, kMaxReductions);
    int ops = rng_.between(4, options_.max_ops);
    for (int i = 0; i < ops; ++i) {
      if (rng_.chance(6)) b_.stage(fmt::format("part{}", i));
      grow();
      if (reductions > 0 && rng_.below(static_cast<uint64_t>(ops - i)) < 5 && rng_.chance(60)) {
        reduce();
        --reductions;
      }
      if (rng_.chance(8)) effect();
    }
    for (; reductions > 0; --reductions) reduce();
    guard_ = rng_.chance(50) ? pick(DType::boolean, coarse_granularity()) : Value{};
    int effects = rng_.between(2, 5);
    for (int i = 0; i < effects; ++i) effect();
    expose_unused();
    return b_.finish();
  }

 private:
  // --- declarations

  void declare_args() {
    int count = rng_.between(0, 4);
    for (int i = 0; i < count; ++i) {
      Type t{any_scalar(), rng_.pick({per::step, per::group, per::tensor})};
      Value v = b_.arg(fmt::format("a{}", i), t);
      add(v);
    }
  }

  // --- pools
  using Pool = std::vector<Value>;
  void add(Value v) {
    Type t = v.type();
    if (t.dtype == DType::bound) return;  // its creator casts or stores it at once
    pools_[{t.dtype, number_of(t.at)}].push_back(v);
    unused_.insert(v.id);
  }
  Value use(Value v) {
    unused_.erase(v.id);
    return v;
  }

  // A value of exactly this type, created if the pool is empty.
  Value pick(DType t, Granularity d) {
    Pool& pool = pools_[{t, number_of(d)}];
    if (pool.empty() || rng_.chance(12)) add(make(t, d));
    // Prefers values without a use, so that little of the program is dead.
    if (rng_.chance(60)) {
      for (size_t tries = 0; tries < 4; ++tries) {
        Value v = rng_.pick(pool);
        if (unused_.contains(v.id)) return use(v);
      }
    }
    return use(rng_.pick(pool));
  }

  // A per-element value that is not shared by a block.
  Value pick_fine(DType t) {
    for (int tries = 0; tries < 8; ++tries) {
      Value v = pick(t, per::element);
      if (v.type().at == per::element) return v;
    }
    if (t == DType::boolean) {
      DType n = number_in(per::element);
      return b_.apply(Op::lt, {pick_fine(n), pick(n, per::element)});
    }
    return t == DType::i32 ? b_.element_index() : b_.cast(b_.element_index(), t);
  }
  // A value that broadcasts to `at`.
  Value pick_shared(DType t, Granularity at) {
    for (int tries = 0; tries < 4; ++tries) {
      Value v = pick(t, rng_.chance(80) ? per::element : up_to(per::tensor));
      if (broadcasts(v.type().at, at)) return v;
    }
    return reduce_shared(t, at);
  }
  Value reduce_shared(DType t, Granularity at) {
    Op op = t == DType::boolean ? Op::reduce_any
                                : rng_.pick({Op::reduce_add, Op::reduce_max, Op::reduce_min});
    Value v = pick_fine(t);
    if (ordered_rows(at) > 0) ++reductions_;
    return b_.reduce(op, v, at);
  }

  // A new value of this type from sources.
  Value make(DType t, Granularity d) {
    if (is_narrow_integer(t)) {
      if (d == per::element && rng_.chance(60)) return b_.load(loadable(t));
      return b_.cast(pick(DType::i32, d), t);
    }
    bool few = !squares_ || reductions_ < kMaxReductions;
    if (d == per::element && !is_low_precision(t) && may_share() && few && rng_.chance(12)) {
      return reduce_shared(t, any_shared());
    }
    if (is_low_precision(t)) {
      if (d == per::step && rng_.chance(40)) return b_.constant(t, interesting());
      if (d == per::element && rng_.chance(60)) return b_.load(loadable(t));
      return b_.cast(pick(DType::f32, d), t);
    }
    if (d == per::step) {
      if (!rng_.chance(60)) return read({t, d});
      return b_.constant(t, t != DType::boolean ? interesting() : rng_.chance(50) ? 1 : 0);
    }
    if (d == per::tensor) {
      if (t == DType::boolean && rng_.chance(50)) return b_.present();
      if (t == DType::i32 && rng_.chance(50)) return b_.tensor_index();
      if (t == DType::i64 && rng_.chance(25)) return b_.column_count();
      if (t == DType::i64 && rng_.chance(35)) return b_.element_count();
    }
    if (!is_tile(d)) return read({t, d});
    if (t == DType::boolean) {
      DType n = rng_.chance(70) ? DType::f32 : DType::i32;
      return b_.apply(rng_.pick({Op::lt, Op::le, Op::eq}),
                      {pick(n, per::element), pick(n, up_to(per::element))});
    }
    if (t == DType::i32) {
      if (rng_.chance(30)) return random();
      return rng_.chance(50) ? b_.element_index() : b_.load(loadable(DType::i32));
    }
    return element_f32();
  }

  Value random() {
    auto coarse = [&](DType t) { return pick(t, up_to(per::tensor)); };
    Value seed = coarse(DType::i64);
    Value count = coarse(DType::i64);
    return b_.random(seed, count, coarse(DType::i32));
  }

  Value element_f32() {
    DTypeSet any;
    switch (rng_.weighted({40, 20, 40})) {
      case 0:
        return b_.load(loadable(DType::f32));
      case 1:
        any = kFloatStorage;
        break;
      default:
        any = low_precision();
    }
    return b_.cast(b_.load(loadable(any)), DType::f32);
  }

  // A buffer with exactly these types that may be loaded.
  BufferRef loadable(DTypeSet types) {
    std::vector<BufferRef> found;
    const auto& buffers = b_.program().buffers;
    for (size_t i = 0; i < buffers.size(); ++i) {
      bool bound = types.size() > 1 && buffers[i].dtypes.size() > 1;
      if (buffers[i].access != Access::out && (buffers[i].dtypes == types || bound)) {
        found.push_back({static_cast<int32_t>(i)});
      }
    }
    if (found.empty()) return add_buffer(types, rng_.chance(60) ? Access::in : Access::inout);
    return rng_.pick(found);
  }

  Value read(Type t) {
    std::vector<StateRef> found;
    const auto& states = b_.program().states;
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i].type == t && !states[i].report) found.push_back({static_cast<int32_t>(i)});
    }
    return b_.read(found.empty() || rng_.chance(25) ? add_state(t) : rng_.pick(found));
  }

  void grow() {
    Granularity d = any_granularity();
    if (rows_ && rng_.chance(36)) return grow_cast(rng_.pick({per::row, per::group}));
    if (columns_ && rng_.chance(36)) return grow_cast(per::column);
    if (rows_ && columns_ && rng_.chance(10))  // together they are per element
      return add(pick(DType::f32, per::row) * pick(DType::f32, per::column));
    rng_.chance(12) ? grow_near_identity(d) : grow(any_op(), d);
  }

  void grow(Op op, Granularity d) {
    switch (info(op).rule) {
      case TypeRule::cast:
        return grow_cast(d);
      case TypeRule::number:
      case TypeRule::compare:
        return grow_same(op, number_in(d), d);
      case TypeRule::real:
      case TypeRule::classify:
        return grow_same(op, real_in(d), d);
      case TypeRule::logical:
        return grow_same(op, DType::boolean, d);
      case TypeRule::pow:
        if (is_of_elements(d)) d = coarse_granularity();
        return grow_same(op, real_in(d), d);
      case TypeRule::bits:
        return grow_same(op, rng_.chance(50) ? DType::boolean : integer_in(d), d);
      case TypeRule::integer:
        return grow_same(op, integer_in(d), d);
      case TypeRule::cast_sr: {
        auto [x, r] = pick_two(DType::f32, DType::i32, d);
        DType to = rng_.chance(5) ? DType::f32 : low_precision(kSignedLowPrecision);
        return add(b_.cast_sr(x, r, to));
      }
      case TypeRule::bitcast:
        return grow_bitcast(d);
      case TypeRule::nearest:
        return add(b_.nearest(any_table(), pick(DType::f32, d)));
      case TypeRule::lookup: {  // most numbers are outside of its codes
        Value kept = b_.constant(DType::i32, rng_.chance(30) ? -1 : 255);
        return add(b_.lookup(any_table(), pick(DType::i32, d) & kept));
      }
      case TypeRule::reduce:
      case TypeRule::reduce_any: {
        DType t = op == Op::reduce_any ? DType::boolean : number_in(per::element);
        if (!may_share() || (squares_ && reductions_ >= kMaxReductions)) return;
        return add(reduce_shared(t, any_shared()));
      }
      case TypeRule::powi: {
        if (is_of_elements(d)) d = coarse_granularity();
        DType base = real_in(d);
        auto [x, e] = pick_two(base, rng_.chance(50) ? DType::i32 : DType::i64, d);
        return add(b_.apply(op, {x, e}));
      }
      case TypeRule::select: {
        DType t = rng_.chance(15) ? DType::boolean : number_in(d);
        size_t fine = rng_.below(3);
        bool by_size = limit_ != 0 && d.scope == Scope::tensor && sizes_.chance(70);
        Value c = by_size ? b_.apply(Op::lt, {b_.element_count(), b_.constant(DType::i64, limit_)})
                          : pick(DType::boolean, fine == 0 ? d : up_to(d));
        Value x = pick(t, fine == 1 ? d : up_to(d));
        Value y = pick(t, fine == 2 ? d : up_to(d));
        return add(b_.select(c, x, y));
      }
      default:
        return;
    }
  }

  std::pair<Value, Value> pick_two(DType first, DType second, Granularity d) {
    bool is_fine = rng_.chance(50);
    Value a = pick(first, is_fine ? d : up_to(d));
    return {a, pick(second, is_fine ? up_to(d) : d)};
  }

  // Code that passes simplify, and code that only looks like it.
  void grow_near_identity(Granularity d) {
    DType t = number_in(d);
    Value x = pick(t, d);
    auto [op, edge] = near_identity();
    switch (rng_.between(0, 6)) {
      case 0:
        return add(b_.apply(op, {x, x}));
      case 1:
        return add(b_.apply(op, {b_.constant(t, edge), x}));
      case 2:
        return add(b_.apply(op, {x, b_.apply(rng_.pick({Op::neg, Op::abs}), {x})}));
      case 3: {
        Value c = pick(DType::boolean, d);
        return add(b_.select(rng_.chance(50) ? !c : c, x, rng_.chance(50) ? x : pick(t, d)));
      }
      case 4:  // code that a compiler would contract
        t = real_in(d);
        return add(b_.apply(rng_.pick({Op::add, Op::sub}),
                            {pick(t, d) * pick(t, up_to(d)), pick(t, up_to(d))}));
      default:
        return add(b_.apply(op, {x, b_.constant(t, edge)}));
    }
  }

  // One operand has granularity `d`, the others that or a coarser one; the same in pick_two.
  void grow_same(Op op, DType t, Granularity d) {
    int arity = info(op).arity;
    int fine = rng_.between(0, arity - 1);
    Value in[3];
    for (int i = 0; i < arity; ++i) in[i] = pick(t, i == fine ? d : up_to(d));
    if (arity == 1) return add(b_.apply(op, {in[0]}));
    if (arity == 2) return add(b_.apply(op, {in[0], in[1]}));
    add(b_.apply(op, {in[0], in[1], in[2]}));
  }

  void grow_cast(Granularity d) {
    switch (rng_.weighted({35, 30, 20, 15, 45})) {
      case 0: {  // between arithmetic types
        DType from = rng_.chance(20) ? DType::boolean : number_in(d);
        DType to = number_in(d);
        if (from == to && rng_.chance(80)) return grow_cast(d);
        return add(cast_or_same(pick(from, d), to));
      }
      case 1:  // rounding to a narrow type
        return add(b_.cast(pick(DType::f32, d), low_precision()));
      case 2:  // and back
        return add(b_.cast(pick(low_precision(), d), DType::f32));
      case 4: {  // to a narrow integer and back
        DType t = narrow_integer();
        return add(rng_.chance(50) ? b_.cast(pick(DType::i32, d), t)
                                   : b_.cast(pick(t, d), DType::i32));
      }
      default: {  // through a buffer's bound type
        const auto& buffers = b_.program().buffers;
        for (size_t i = 0; i < buffers.size(); ++i) {
          if (buffers[i].dtypes.size() < 2) continue;
          Value bound =
              b_.cast_to_buffer(pick(DType::f32, per::element), {static_cast<int32_t>(i)});
          return add(b_.cast(bound, DType::f32));
        }
        return grow_cast(d);
      }
    }
  }
  void grow_bitcast(Granularity d) {
    DType real = rng_.pick({real_in(d), real_in(d), DType::f16, DType::bf16});
    DType integer = real == DType::f64 ? DType::i64 : DType::i32;
    if (rng_.chance(50)) std::swap(real, integer);
    add(b_.bitcast(pick(real, d), integer));
  }
  // Builder::cast drops casts to the same type; the passes should see some.
  Value cast_or_same(Value v, DType to) {
    if (v.type().dtype != to) return b_.cast(v, to);
    return b_.apply(Op::cast, {v});
  }

  void reduce() {
    Op op =
        rng_.pick({Op::reduce_add, Op::reduce_add, Op::reduce_max, Op::reduce_min, Op::reduce_any});
    bool coarse = options_.coarse_reductions && rng_.chance(has_lines() ? 60 : 40);
    Granularity from = coarse ? reduced_coarse() : per::element;
    DType t = op == Op::reduce_any ? DType::boolean : number_in(from);
    // Absent tensors take part in such a reduction, so it sometimes counts them.
    bool counts = from == per::tensor && rng_.chance(20);
    Value v = from == per::element  ? pick_fine(t)
              : !counts             ? pick(t, from)
              : t == DType::boolean ? !b_.present()
                                    : b_.cast(b_.present(), t);
    add(b_.reduce(op, v, reduced_to(from)));
    ++reductions_;
  }

  // --- effects
  Value predicate(Granularity guarded) {
    if (guard_ && broadcasts(guard_.type().at, guarded) && rng_.chance(50)) return guard_;
    if (rng_.chance(50)) return {};
    return pick(DType::boolean, up_to(guarded));
  }

  void effect() {
    if (rng_.chance(60)) {
      std::vector<int32_t> free;
      const auto& buffers = b_.program().buffers;
      for (size_t i = 0; i < buffers.size(); ++i) {
        auto slot = static_cast<int32_t>(i);
        if (buffers[i].access != Access::in && !stored_.contains(slot)) free.push_back(slot);
      }
      if (free.empty()) free.push_back(add_buffer(any_storage(), Access::inout).slot);
      return store(rng_.pick(free));
    }
    std::vector<int32_t> free;
    const auto& states = b_.program().states;
    for (size_t i = 0; i < states.size(); ++i) {
      auto slot = static_cast<int32_t>(i);
      if (!states[i].report && !written_.contains(slot)) free.push_back(slot);
    }
    if (free.empty()) free.push_back(add_state({any_scalar(), coarse_granularity()}).slot);
    int32_t slot = rng_.pick(free);
    Type t = states[static_cast<size_t>(slot)].type;
    write(slot, pick(t.dtype, rng_.chance(60) ? t.at : up_to(t.at)));
  }

  void store(int32_t slot) {
    stored_.insert(slot);
    BufferRef buffer{slot};
    const Buffer& declared = b_.program().buffers[static_cast<size_t>(slot)];
    DTypeSet types = declared.dtypes;
    DType held = types.size() == 1 ? types.only() : DType::bound;
    Granularity d = rng_.chance(80) ? per::element : up_to(columns_ ? per::column : per::row);
    Value v;
    if (declared.at != per::element) return store_shared(buffer, held, declared.at);
    if (held == DType::i32) {
      v = pick(DType::i32, d);
    } else if (is_narrow_integer(held)) {
      v = pick(held, d);
    } else if (is_low_precision(held) && rng_.chance(30)) {
      v = pick(held, d);
    } else {
      v = b_.cast_to_buffer(pick(DType::f32, d), buffer);
    }
    b_.store(buffer, v, predicate(per::element));
  }

  Value shared_predicate(Granularity at) {
    if (ordered_rows(at) == 0) return pick_shared(DType::boolean, at);
    return b_.apply(Op::lt, {reduce_shared(DType::f32, at), pick(DType::f32, per::tensor)});
  }
  void store_shared(BufferRef buffer, DType held, Granularity at) {
    bool integer = held == DType::i32 || is_narrow_integer(held);
    Value v = b_.cast_to_buffer(pick_shared(integer ? DType::i32 : DType::f32, at), buffer);
    Value p = rng_.chance(50) ? predicate(per::tensor) : shared_predicate(at);
    b_.store(buffer, v, p);
  }

  void write(int32_t slot, Value v) {
    written_.insert(slot);
    Granularity d = b_.program().states[static_cast<size_t>(slot)].type.at;
    b_.write({slot}, v, predicate(d));
  }

  // Stores or reports values without a use, so that a wrong one is noticed.
  void expose_unused() {
    int left = 5;
    auto unused = unused_;
    for (auto it = unused.rbegin(); it != unused.rend() && left > 0; ++it) {
      Value v{&b_, *it};
      Type t = v.type();
      if (is_source(b_.program()[*it].op) || is_storage_only(t.dtype)) continue;
      --left;
      if (!is_tile(t.at)) {
        std::string name = fmt::format("r{}", b_.program().states.size());
        StateRef r = splits_tensor(t.at) ? b_.state(name, t) : b_.report(name, t);
        b_.write(r, v, rng_.chance(20) ? predicate(t.at) : Value{});
      } else if (t.dtype == DType::boolean) {
        if (reductions_++ >= kMaxReductions) continue;
        StateRef r =
            b_.report(fmt::format("r{}", b_.program().states.size()), {DType::boolean, per::step});
        Value fine =
            t.at == per::element ? v : b_.apply(Op::bit_and, {v, pick_fine(DType::boolean)});
        b_.write(r, b_.reduce(Op::reduce_any, fine));
      } else {
        Granularity at = rng_.chance(50) ? t.at : per::element;
        bool in_part = ordered_rows(at) > 0 && rng_.chance(50);
        Value p = in_part ? shared_predicate(at) : predicate(at == per::element ? at : per::tensor);
        b_.store(add_buffer(t.dtype, Access::out, at), v, p);
      }
    }
  }

  ProgramOptions options_;
  std::map<std::pair<DType, uint32_t>, Pool> pools_;  // by number_of()
  std::set<ValueId> unused_;
  std::set<int32_t> stored_;
  std::set<int32_t> written_;
  Value guard_;
  int reductions_ = 0;
};

// Adds buffers that have the values of others in different orders, where that is possible.
void add_orders(Program* p, Rng& rng) {
  for (const Inst& inst : std::vector<Inst>(p->insts)) {
    if (inst.op != Op::store) continue;
    const Buffer from = p->buffers[static_cast<size_t>(inst.slot)];
    if (from.dtypes.size() != 1 || !from.is_of_all() || from.at.columns > 128) continue;
    bool of_blocks = from.at.rows == 1 && from.at.columns > 1;
    bool packs = packs_codes(from.at, from.dtypes.only());
    Granularity stored = (*p)[inst.operands[0]].type.at;
    Order order;
    order.transposed = !of_blocks || packs || broadcasts(stored, per::square(from.at.columns));
    order.transposed = order.transposed && rng.chance(70);
    order.swizzled = of_blocks && from.at.columns <= kLargestSwizzled &&
                     size_of(from.dtypes.only()) == 1 && rng.chance(70);
    if (!order.any() || rng.chance(30)) continue;
    Buffer arranged{.name = fmt::format("o{}", p->buffers.size()),
                    .dtypes = from.dtypes,
                    .access = Access::out,
                    .at = from.at};
    arranged.order = order;
    arranged.arranges = inst.slot;
    p->buffers.push_back(std::move(arranged));
  }
  verify(*p);
}

}  // namespace

Program random_program(uint64_t seed, const ProgramOptions& options) {
  Program p = Generator(seed, options).run();
  if (Rng rng(seed, "orders"); rng.chance(20)) add_orders(&p, rng);
  if (Rng rng(seed, "names"); rng.chance(25)) rename_hostile(p, rng);
  return p;
}

}  // namespace stepfuse::testing
