// CUDA text of the element loop: it loads, computes and stores tiles. Knows the plan.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "compiler/cuda/ops.hpp"
#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {
namespace {

class BodyEmitter {
 public:
  BodyEmitter(Emission& e, const plan::Body& body, bool prefetches)
      : e_(e), body_(body), prefetches_(prefetches), fast_path_(fast_path_of(e, body)) {
    auto [tile, tiles, leader] = tile_shape_of(e, body, fast_path_.exists);
    tile_ = tile;
    tiles_ = tiles;
    leader_ = leader;
  }

  void emit() {
    emit_pointers();
    for (const auto& [operand, x] : fast_path_.finite_checks) {
      e_.out.line(fmt::format("float most_{} = 0;", e_.name(operand)));
    }
    // Read it once: as far as the compiler knows, a store might change it.
    if (uses(Op::element_index)) {
      // NVRTC does not know that chunks of blocks begin with one.
      bool begins_with_one = has_blocks() && !e_.plan.has_rows;
      std::string aligned = begins_with_one ? fmt::format(" & ~{}u", body_.unit - 1) : "";
      e_.out.line(
          fmt::format("const u32 origin = (u32(tensor.offset) + u32(chunk.begin)){};", aligned));
    }
    if (uses(Op::random)) {
      e_.out.line("const i64 position = i64(tensor.offset + chunk.begin);");
      e_.out.line("const u32 drawn_id = tensor.id;");
    }
    // With blocks, the threads of a warp must stay together.
    if (has_blocks()) {
      e_.out.line(fmt::format("const i32 last = (length + {0}) & ~{0};", kWarpElements - 1));
    }
    e_.out.pragma("#pragma unroll 1");
    e_.out.open(fmt::format("while (first < {})", has_blocks() ? "last" : "length"));
    fast_path_.exists ? emit_two_paths() : emit_turn();
    e_.out.close();
    for (const plan::Combine& c : body_.reductions) {
      if (!fast_path_.finite_checks.contains(c.operand)) continue;
      e_.out.line(fmt::format("acc_{} |= !is_finite(most_{});",
                              e_.name(e_.plan.reduction(c.reduction).value), e_.name(c.operand)));
    }
  }

 private:
  using Array = plan::ArrayUse;
  static constexpr int kWarpElements = 256, kDividedAtOnce = 4;
  bool has_blocks() const { return body_.unit > 1; }
  int block_of(const Array& a) const { return stepfuse::block_of(e_.plan.array(a).at); }
  int block_of(Id v) const { return stepfuse::block_of(e_.plan[v].at); }
  const Array& array(int32_t index) const { return body_.arrays[static_cast<size_t>(index)]; }
  std::string name(const Array& a) const { return e_.array_name(a); }
  // The rows of a tile if rows are combined in the array: a load in the first of them gives the identity.
  int32_t combined_rows(const Array& a) const { return plan::combined_rows(e_.plan.array(a), a); }
  // Returns `loaded`, or the identity in a first row.
  std::string or_identity(const Array& a, const std::string& loaded) const {
    int32_t rows = combined_rows(a);
    if (rows == 0) return loaded;
    const plan::Reduction& r = e_.plan.reduction(e_.plan.array(a).index);
    return fmt::format("line % {} == 0 ? {} : {}", rows, identity_of(r), loaded);
  }

  int elements() const { return tile_ * tiles_; }

  // Whether the tiles that a thread processes at once are known to lie inside of the chunk.
  enum class Tiles { any, whole };

  // The tiles follow the alignment of the array with most traffic. Other arrays with the same alignment are
  // accessed in whole tiles, too.
  void emit_pointers() {
    for (const Array& a : body_.arrays) {
      e_.out.line(fmt::format("u64 p_{} = address_of({});", name(a), array_base(e_, a)));
    }
    e_.out.line(leader_ == nullptr ? "const i32 skew = 0;"
                                   : fmt::format("const i32 skew = skew_of<{}, {}>(p_{});",
                                                 c_type(leader_->dtype), tile_, name(*leader_)));
    e_.out.line(fmt::format("const i32 stride = kept(i32(work.workers) * {});", tile_));
    if (has_lanes()) {
      e_.out.line(fmt::format("place = lane_place<{}>(skew, work.worker, work.workers);", tile_));
    }
    e_.out.line(fmt::format("i32 first = i32(work.worker) * {} - skew;", tile_));
    if (!asks()) return;
    std::string aligned;
    for (const Array* a : streamed()) {
      std::string type(c_type(a->dtype));
      e_.out.line(fmt::format("p_{} += bytes_of<{}>(first);", name(*a), type));
      std::string is = fmt::format("is_aligned<{}, {}>(p_{})", type, tile_, name(*a));
      if (is_aligned_alone(e_, *a)) {
        e_.out.line(fmt::format("const bool aligned_{} = {};", name(*a), is));
      } else {
        aligned += (aligned.empty() ? "" : " && ") + is;
      }
    }
    std::string room = fmt::format("room_of<{}>(length)", tile_);
    if (!aligned.empty()) room = fmt::format("{} ? {} : 0", aligned, room);
    e_.out.line(fmt::format("const u32 room = {};", room));
  }
  // Whether anything depends on tiles being whole.
  bool asks() const { return fast_path_.exists || !streamed().empty(); }
  // Returns the arrays with one value per element. Their pointers advance with the tiles.
  std::vector<const Array*> streamed() const {
    std::vector<const Array*> out;
    for (const Array& a : body_.arrays) {
      if (block_of(a) == 1) out.push_back(&a);
    }
    return out;
  }
  bool has_lanes() const {
    return std::any_of(body_.reductions.begin(), body_.reductions.end(), [&](const auto& c) {
      return e_.plan.reduction(c.reduction).op != Op::reduce_any;
    });
  }

  std::string access(const Array& a) const {
    std::string_view how = "Plain";
    if (!a.loaded_later) {
      if (e_.options.cache == CudaCache::streaming) how = "Streaming";
      if (e_.options.cache == CudaCache::evict_first) how = "EvictFirst";
    }
    return fmt::format("<{}, {}, {}, {}>", how, c_type(a.dtype), tile_, tiles_);
  }
  std::string alone(const Array& a) const {
    return is_aligned_alone(e_, a) ? ", aligned_" + name(a) : "";
  }
  // Declares words that hold the array's elements.
  std::string words(std::string_view what, const Array& a) const {
    return fmt::format("u32 {}_{}[{}]{};", what, name(a),
                       static_cast<size_t>(elements()) * size_of(a.dtype) / 4,
                       combined_rows(a) > 0 && what == "in" ? " = {}" : "");
  }

  // Writes one turn of the loop. One branch for all arrays tests whether the tiles are inside of the chunk,
  // as most are; a branch per array would take longer than the accesses.
  void emit_turn() {
    if (asks()) emit_question();
    // Values of blocks that are loaded, or computed from loads alone, come first, so no load waits for another.
    auto pass = body_.passes.begin();
    if (has_blocks()) {
      declare_kept();
      for (; is_before_elements(*pass); ++pass) emit_pass(*pass);
    }
    std::vector<const Array*> loaded = emit_words();
    if (!loaded.empty()) {
      both_ways([&](Tiles tiles) { emit_loads(loaded, tiles); });
    }
    declare_elements();
    if (!has_blocks()) emit_elements(Tiles::any);
    // A level stores its values at once, which frees their registers for the next one.
    for (; pass != body_.passes.end(); ++pass) {
      if (has_blocks()) emit_pass(*pass);
      if (pass->block == 1) emit_stores(pass->stores);
    }
    emit_advance();
  }
  // Whole tiles have little code, so several of them are done at once; otherwise eight lanes are.
  void emit_two_paths() {
    emit_question();
    both_ways([&](Tiles tiles) {
      int all = std::exchange(tiles_, tiles == Tiles::whole ? tiles_ : kThreadLanes / tile_);
      emit_loads(emit_words(), tiles);
      declare_elements();
      emit_elements(tiles);
      emit_advance();
      tiles_ = all;
    });
  }
  void emit_question() {
    std::string last =
        tiles_ == 1 ? "" : fmt::format(" && u32(first + {} * stride) < room", tiles_ - 1);
    e_.out.line(fmt::format("const bool whole = u32(first) < room{};", last));
  }
  void emit_advance() {
    e_.out.line(fmt::format("first += {} * stride;", tiles_));
    for (const Array* a : streamed()) {
      e_.out.line(
          fmt::format("p_{} += bytes_of<{}>({} * stride);", name(*a), c_type(a->dtype), tiles_));
    }
  }
  // Declares the words that loads fill.
  std::vector<const Array*> emit_words() {
    std::vector<const Array*> loaded = streamed();
    std::erase_if(loaded, [](const Array* a) { return !a->loaded; });
    for (const Array* a : loaded) e_.out.line(words("in", *a));
    return loaded;
  }
  void emit_loads(const std::vector<const Array*>& arrays, Tiles tiles) {
    for (const Array* a : arrays) emit_load(*a, tiles);
    if (!prefetches_ || tiles != Tiles::whole) return;
    for (const Array* a : arrays) {
      if (needs_rows(e_.plan.array(*a).at)) continue;  // values of columns stay in the cache
      e_.out.line(fmt::format("prefetch<{0}, {1}, {2}>(p_{3} + ahead * sizeof({0}), stride);",
                              c_type(a->dtype), tile_, tiles_, name(*a)));
    }
  }
  void emit_load(const Array& a, Tiles tiles) {
    std::string load =
        tiles == Tiles::whole
            ? fmt::format("load_whole{0}(in_{1}, p_{1}, stride{2});", access(a), name(a), alone(a))
            : fmt::format("load{0}(in_{1}, p_{1}, first, stride, length);", access(a), name(a));
    if (int32_t rows = combined_rows(a)) load = fmt::format("if (line % {} != 0) {}", rows, load);
    e_.out.line(load, load_comment(e_, body_, a));
  }
  template <class Emit>
  void both_ways(Emit&& emit) {
    e_.out.open("if (whole)");
    emit(Tiles::whole);
    e_.out.close("} else {");
    e_.out.reopen();
    emit(Tiles::any);
    e_.out.close();
  }
  // Declares the words and masks that the loop over the elements of whole tiles fills.
  void declare_elements() {
    for (const Array& a : body_.arrays) {
      if (a.stored && block_of(a) == 1) e_.out.line(words("out", a));
    }
    for (const plan::Store& s : body_.stores) {
      if (rounded_in_pairs(body_, s) == kNone) continue;
      e_.out.line(fmt::format("float wide_{}[{}];", name(array(s.array)), elements()));
    }
    for (Id m : masks()) e_.out.line(fmt::format("u32 mask_{} = 0;", e_.name(m)));
    for (const plan::Inst& inst : body_.code) {
      if (inst.op == Op::random) emit_draw(inst);
    }
  }
  void emit_elements(Tiles tiles) {
    e_.out.pragma("#pragma unroll");
    e_.out.open(fmt::format("for (i32 e = 0; e < {}; ++e)", elements()));
    bool is_short = tiles == Tiles::whole;
    if (needs_position(is_short)) {
      e_.out.line(fmt::format("const i32 at = first + e / {0} * stride + e % {0};", tile_));
    }
    for (const plan::Inst& inst : body_.code) {
      if (!is_short || fast_path_.values.contains(inst.value)) emit_value(inst);
    }
    for (const plan::Combine& c : body_.reductions) emit_combine(c, tiles);
    for (const plan::Store& s : body_.stores) emit_put(s);
    for (Id m : masks()) emit_mask(m);
    e_.out.close();
  }
  void emit_value(const plan::Inst& inst) {
    e_.out.line(
        fmt::format("const {} {} = {};", c_type(inst.out), e_.name(inst.value), value(inst)),
        e_.comment(inst.value));
  }
  void emit_quotient(const plan::Inst& inst, Quotient way) {
    e_.out.line(fmt::format("const float {} = divided({}, {}{});", e_.name(inst.value),
                            e_.name(inst.operands[0]), e_.name(inst.operands[1]),
                            way == Quotient::near ? "" : ", far"),
                e_.comment(inst.value));
  }
  void emit_put(const plan::Store& s) {
    const Array& a = array(s.array);
    if (Id wide = rounded_in_pairs(body_, s); wide != kNone) {
      e_.out.line(fmt::format("wide_{}[e] = {};", name(a), e_.name(wide)), s.text);
      return;
    }
    e_.out.line(
        fmt::format("put<{}>(out_{}, e, bits_of({}));", c_type(a.dtype), name(a), narrowed(s)),
        s.text);
  }
  std::string narrowed(const plan::Store& s) const {
    return expression(Op::cast, s.from, array(s.array).dtype, e_.name(s.value), "", "");
  }
  void emit_mask(Id m) { e_.out.line(fmt::format("mask_{0} |= u32({0}) << e;", e_.name(m))); }

  // In a body with blocks, there are loops over tiles, each within one block of every size, and over
  // elements. Values that other loops need are kept in register arrays kept_NAME.
  void declare_kept() {
    for (const plan::Inst& inst : body_.code) {
      if (!inst.kept) continue;
      e_.out.line(fmt::format("{} kept_{}[{}];", c_type(inst.out), e_.name(inst.value),
                              block_of(inst.value) > 1 ? tiles_ : elements()));
    }
  }
  static bool is_before_elements(const plan::Pass& pass) {
    return pass.level == 0 && pass.block > 1 && pass.stores.empty();
  }
  void emit_pass(const plan::Pass& pass) {
    if (!divides_by_shared(e_.plan, body_, pass)) return emit_pass(pass, false);
    // Elements are divided without a branch for each; what that might round wrongly, which is rare,
    // is done again. Few at a time: what they are made of stays in registers until that is known.
    e_.out.pragma("#pragma unroll");
    e_.out.open(fmt::format("for (i32 g = 0; g < {}; g += {})", elements(), kDividedAtOnce));
    e_.out.line("bool far = false;");
    emit_pass(pass, true);
    e_.out.open("if (far)");
    emit_pass(pass, false);
    e_.out.close();
    e_.out.close();
  }
  void emit_pass(const plan::Pass& pass, bool quick) {
    bool blocks = pass.block > 1;
    e_.out.pragma("#pragma unroll");
    if (blocks) {
      e_.out.open(fmt::format("for (i32 u = 0; u < {}; ++u)", tiles_));
      e_.out.line("const i32 at = first + u * stride;");
    } else {
      bool few = divides_by_shared(e_.plan, body_, pass);
      e_.out.open(few ? fmt::format("for (i32 e = g; e < g + {}; ++e)", kDividedAtOnce)
                      : fmt::format("for (i32 e = 0; e < {}; ++e)", elements()));
      e_.out.line(fmt::format("const i32 at = first + e / {0} * stride + e % {0};", tile_));
    }
    auto place = [&](Id v) {
      bool shared = block_of(v) > 1;
      return fmt::format("kept_{}[{}]", e_.name(v),
                         shared == blocks ? (blocks ? "u" : "e") : fmt::format("e / {}", tile_));
    };
    ValueSet known;
    auto fetch = [&](Id v) {
      const plan::Inst* input = body_.input(pass, v);
      if (input == nullptr || !known.insert(v).second) return;
      e_.out.line(fmt::format("const {} {} = {};", c_type(input->out), e_.name(v), place(v)));
    };
    for (const plan::Inst& inst : body_.code_of(pass)) {
      if (!inst.reduces_block()) for_each_operand(inst, fetch);
      Quotient way = quotient_of(e_.plan, body_, inst);
      bool is_quick = way == Quotient::near || (quick && way == Quotient::may_be_far);
      is_quick ? emit_quotient(inst, way) : emit_value(inst);
      if (inst.kept) {
        e_.out.line(fmt::format("{} = {};", place(inst.value), e_.name(inst.value)));
      }
    }
    for (size_t r : pass.reductions) {
      fetch(body_.reductions[r].operand);
      emit_combine(body_.reductions[r], Tiles::any);
    }
    // One of the threads that loaded the block stores its value.
    bool waits = std::any_of(pass.stores.begin(), pass.stores.end(),
                             [&](size_t s) { return array(body_.stores[s].array).loaded; });
    if (blocks && waits) e_.out.line("__syncwarp();");
    for (size_t k : pass.stores) {
      const plan::Store& s = body_.stores[k];
      fetch(s.value);
      fetch(s.predicate);
      blocks ? emit_shared_store(s) : emit_put(s);
      if (!blocks && is_masked(e_.plan, s)) emit_mask(s.predicate);
    }
    e_.out.close();
  }
  void emit_shared_store(const plan::Store& s) {
    const Array& a = array(s.array);
    e_.out.line(
        fmt::format("{}store_shared<{}>(p_{}, bits_of({}), at, {}, length);",
                    store_condition(e_, a, s), c_type(a.dtype), name(a), narrowed(s), block_of(a)),
        s.text);
  }
  void emit_draw(const plan::Inst& inst) {
    auto [seed, count, stream] = inst.operands;
    e_.out.line(fmt::format("u32 drawn_{}[{}];", e_.name(inst.value), elements()));
    e_.out.line(fmt::format(
        "Random({}, {}, {}, drawn_id).draw<{}, {}>(drawn_{}, position + first, stride);",
        e_.name(seed), e_.name(count), e_.name(stream), tile_, tiles_, e_.name(inst.value)));
  }
  bool uses(Op op) const {
    return std::any_of(body_.code.begin(), body_.code.end(),
                       [&](const plan::Inst& inst) { return inst.op == op; });
  }
  // A reduction tests whether an element belongs to the chunk, unless all do.
  bool needs_position(bool is_short) const {
    if (!is_short && !body_.reductions.empty()) return true;
    return std::any_of(body_.code.begin(), body_.code.end(), [&](const plan::Inst& inst) {
      return inst.op == Op::element_index && (!is_short || fast_path_.values.contains(inst.value));
    });
  }

  std::string value(const plan::Inst& inst) const {
    if (inst.reduces_block()) return block_reduction(inst);
    if (inst.op == Op::load && block_of(inst.value) > 1) {
      const Array& a = array(inst.index);
      return or_identity(a, fmt::format("load_shared<{}>(p_{}, at, {}, length)", c_type(inst.out),
                                        name(a), block_of(a)));
    }
    if (inst.op == Op::load) {
      const Array& a = array(inst.index);
      return or_identity(a, fmt::format("get<{}>(in_{}, e)", c_type(inst.out), name(a)));
    }
    if (inst.op == Op::element_index) {
      return has_blocks() ? "i32(origin + u32(at))" : "i32(origin + u32(inside(at, length)))";
    }
    if (inst.op == Op::random) return fmt::format("i32(drawn_{}[e])", e_.name(inst.value));
    return expression(e_.plan, inst);
  }

  std::string block_reduction(const plan::Inst& inst) const {
    bool ordered = inst.op == Op::reduce_add && inst.out == DType::f32;
    return fmt::format("reduce_block<{}, {}, {}>(kept_{} + u * {}, at, length)",
                       inst.op == Op::reduce_any ? "Or" : combiner(inst.op), block_of(inst.value),
                       ordered, e_.name(inst.operands[0]), tile_);
  }

  void emit_combine(const plan::Combine& c, Tiles tiles) {
    const plan::Reduction& r = e_.plan.reduction(c.reduction);
    const std::string& operand = e_.name(c.operand);
    const std::string& acc = e_.name(r.value);
    auto check = fast_path_.finite_checks.find(c.operand);
    if (tiles == Tiles::whole && check != fast_path_.finite_checks.end()) {
      e_.out.line(fmt::format("most_{0} = most(most_{0}, {1});", operand, e_.name(check->second)),
                  e_.comment(r.value));
    } else if (tiles == Tiles::whole) {
      std::string combined =
          r.op == Op::reduce_any
              ? fmt::format("acc_{} |= {};", acc, operand)
              : fmt::format("acc_{0}[e % 8] = {1}::combine(acc_{0}[e % 8], {2});", acc,
                            combiner(r.op), operand);
      e_.out.line(combined, e_.comment(r.value));
    } else if (r.op == Op::reduce_any) {
      e_.out.line(fmt::format("acc_{} |= {} & (u32(at) < u32(length));", acc, operand),
                  e_.comment(r.value));
    } else {
      e_.out.line(fmt::format("acc_{0}[e % 8] = u32(at) < u32(length) ? "
                              "{1}::combine(acc_{0}[e % 8], {2}) : acc_{0}[e % 8];",
                              acc, combiner(r.op), operand),
                  e_.comment(r.value));
    }
  }

  // Returns the per-element predicates of stores.
  ValueSet masks() const {
    ValueSet out;
    for (const plan::Store& s : body_.stores) {
      if (block_of(array(s.array)) == 1 && is_masked(e_.plan, s)) out.insert(s.predicate);
    }
    return out;
  }

  // Stores the values that elements of one level make, in arrays with a value per element.
  void emit_stores(const std::vector<size_t>& stores) {
    std::vector<const plan::Store*> unmasked;
    for (size_t k : stores) {
      const plan::Store& s = body_.stores[k];
      const Array& a = array(s.array);
      if (rounded_in_pairs(body_, s) != kNone) {
        e_.out.line(fmt::format("round_pairs<{0}>(out_{1}, wide_{1});", c_type(a.dtype), name(a)));
      }
      is_masked(e_.plan, s) ? emit_store(s, Tiles::any) : unmasked.push_back(&s);
    }
    if (unmasked.empty()) return;
    both_ways([&](Tiles tiles) {
      for (const plan::Store* s : unmasked) emit_store(*s, tiles);
    });
  }
  void emit_store(const plan::Store& s, Tiles tiles) {
    const Array& a = array(s.array);
    std::string condition;
    std::string mask;
    if (is_masked(e_.plan, s)) {
      mask = ", mask_" + e_.name(s.predicate);
    } else if (s.predicate != kNone) {
      condition = fmt::format("if ({}) ", e_.name(s.predicate));
    }
    e_.out.line(tiles == Tiles::whole
                    ? fmt::format("{0}store_whole{1}(out_{2}, p_{2}, stride{3});", condition,
                                  access(a), name(a), alone(a))
                    : fmt::format("{0}store{1}(out_{2}, p_{2}, first, stride, length{3});",
                                  condition, access(a), name(a), mask),
                s.text);
  }

  Emission& e_;
  const plan::Body& body_;
  bool prefetches_;
  const Array* leader_ = nullptr;
  int tile_ = 4;
  int tiles_ = 1;
  FastPath fast_path_;
};

}  // namespace

void emit_bodies(Emission& e, const plan::Bodies& bodies, bool prefetches) {
  if (bodies.size() == 1) return BodyEmitter(e, bodies[0], prefetches).emit();
  if (bodies.empty()) return;
  e.out.open("switch (chunk.signature)");
  for (const plan::Body& body : bodies) {
    for (uint32_t s : body.signatures) {
      if (s != body.signatures.back()) e.out.line(fmt::format("case {}:", s));
    }
    e.out.open(fmt::format("case {}:", body.signatures.back()));
    BodyEmitter(e, body, prefetches).emit();
    e.out.line("break;");
    e.out.close();
  }
  e.out.close();
}

}  // namespace stepfuse::cuda
