// Runs a Program as the language defines it. Knows ir only.
//
// A value's level is the number of reductions that it depends on. The levels run one by one: first the
// values that are not per element, then one pass over all elements, which computes every element value up
// to the level and feeds the reductions whose operands belong to that level. The last pass also stores. A
// piece's loads precede its stores and pieces are disjoint, so loads see the contents from before the step.
// States are written at the very end.
#include "ir/semantics/interpreter.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "ir/formats/code_table.hpp"
#include "ir/semantics/element_ops.hpp"
#include "ir/semantics/fp_env.hpp"
#include "ir/semantics/random.hpp"
#include "ir/semantics/reduction.hpp"
#include "ir/semantics/semantics.hpp"

namespace stepfuse {
namespace {

// The values of one granularity within tensors, numbered through all tensors.
struct Members {
  Granularity at;
  std::vector<size_t> first;   // [tensor] its first member
  std::vector<size_t> tensor;  // [member]
};

// Calls f with an integer as wide as an element of a buffer.
template <class F>
void by_width(DType d, F f) {
  switch (size_of(d)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    default:
      return f(uint32_t{});
  }
}

class Interpreter {
 public:
  Interpreter(const Program& p, StepData& data)
      : p_(p),
        data_(data),
        level_(p.insts.size(), 0),
        uniform_(p.insts.size()),
        columns_(p.insts.size()),
        pieces_(p.insts.size()),
        combined_(p.insts.size()),
        has_rows_(has_rows(p)),
        owner_(has_rows_ ? per::row : per::tensor) {
    for (const StepTensor& t : data.tensors) {
      shapes_.push_back(shape_of(t.size, has_rows_ ? t.column_count() : t.size));
    }
    count_members(per::tensor);
    if (has_rows_) count_members(per::row);
    for (Granularity g : granularities_of(p)) {
      if (!needs_rows(g)) continue;
      count_members(g);
      if (auto partial = partials_of(g); partial && *partial != per::piece) count_members(*partial);
    }
    for (ValueId v = 0; v < p.size(); ++v) {
      int& level = level_[index(v)];
      for_each_operand(p[v], [&](ValueId o) { level = std::max(level, level_[index(o)]); });
      if (is_folded(p[v])) ++level;
      last_level_ = std::max(last_level_, level);
    }
  }

  void run(const std::vector<Reduced>& given) {
    FpEnvGuard guard;
    given_ = &given;
    for (int level = 0; level <= last_level_; ++level) {
      evaluate_uniforms(level);
      run_elements(level);
    }
    for (size_t b = 0; b < p_.buffers.size(); ++b) {
      if (p_.buffers[b].order.any()) arrange(b);
    }
    for (const Inst& inst : p_.insts) {
      if (inst.op == Op::write) write_state(inst);
    }
  }

  void reduce_only(std::vector<Reduced>& wanted) {
    FpEnvGuard guard;
    int levels = 0;
    for (const Reduced& r : wanted) levels = std::max(levels, level_[index(r.value)]);
    for (int level = 0; level < levels; ++level) {
      evaluate_uniforms(level);
      run_elements(level);
    }
    evaluate_uniforms(levels);
    for (Reduced& r : wanted) {
      r.results = uniform_[index(r.value)];
      r.pieces.clear();
      for (const auto& [tensor, value] : pieces_[index(r.value)]) r.pieces.push_back(value);
    }
  }

 private:
  static size_t index(ValueId v) { return static_cast<size_t>(v); }

  void count_members(Granularity g) {
    auto is_g = [&](const Members& m) { return m.at == g; };
    if (std::any_of(members_.begin(), members_.end(), is_g)) return;
    Members m{g, {}, {}};
    for (size_t t = 0; t < shapes_.size(); ++t) {
      m.first.push_back(m.tensor.size());
      size_t own = g == per::tensor ? 1 : tile_count(g, shapes_[t]);
      m.tensor.resize(m.tensor.size() + own, t);
    }
    members_.push_back(std::move(m));
  }
  const Members& members(Granularity g) const {
    return *std::find_if(members_.begin(), members_.end(),
                         [&](const Members& m) { return m.at == g; });
  }
  size_t count(Granularity g) const {
    if (g.scope == Scope::tensor) return members(g).tensor.size();
    return g == per::step ? 1 : static_cast<size_t>(data_.group_count);
  }
  // Returns the member of `g` that contains an element of a tensor.
  size_t member_at(Granularity g, size_t tensor, uint64_t row, uint64_t column) const {
    if (g.scope == Scope::tensor) {
      return members(g).first[tensor] + tile_index(g, shapes_[tensor], row, column);
    }
    return g == per::step ? 0 : group_of(tensor);
  }
  // Returns the member of `coarse` that contains member `m` of `fine`.
  size_t member_of(Granularity coarse, Granularity fine, size_t m) const {
    if (coarse == fine || coarse == per::step) return coarse == fine ? m : 0;
    const Members& all = members(fine);
    size_t t = all.tensor[m];
    uint64_t tile = m - all.first[t];
    uint64_t along = tiles_along(shapes_[t].columns, fine.columns);
    if (along == 0) return member_at(coarse, t, 0, 0);  // the tensor is empty
    return member_at(coarse, t, tile / along * static_cast<uint64_t>(fine.rows),
                     tile % along * static_cast<uint64_t>(fine.columns));
  }

  // Returns the value of `v` for member `m` of `g`, broadcast from v's own granularity.
  Bits uniform_at(ValueId v, Granularity g, size_t m) const {
    return uniform_[index(v)][member_of(p_[v].type.at, g, m)];
  }
  // Returns the value of `v` that all elements of the current piece share.
  Bits uniform_here(ValueId v, size_t tensor) const {
    return uniform_[index(v)][member_at(p_[v].type.at, tensor, line_, 0)];
  }
  size_t group_of(size_t tensor) const { return static_cast<size_t>(data_.tensors[tensor].group); }

  // --- values coarser than elements

  void evaluate_uniforms(int level) {
    for (ValueId v = 0; v < p_.size(); ++v) {
      bool uniform = !is_tile(p_[v].type.at) && !is_effect(p_[v].op);
      if (uniform && level_[index(v)] == level) evaluate_uniform(v);
    }
  }

  void evaluate_uniform(ValueId v) {
    const Inst& inst = p_[v];
    std::vector<Bits>& out = uniform_[index(v)];
    if (given_ != nullptr) {
      for (const Reduced& r : *given_) {
        if (r.value == v) out = r.results;
      }
      if (!out.empty()) return;
    }
    out.assign(count(inst.type.at), {});
    if (is_reduction(inst.op)) return reduce(inst, v, out);
    for (size_t m = 0; m < out.size(); ++m) out[m] = evaluate_member(inst, m);
  }

  Bits evaluate_member(const Inst& inst, size_t m) const {
    auto slot = static_cast<size_t>(inst.slot);
    switch (inst.op) {
      case Op::constant:
        return inst.literal;
      case Op::arg:
        return data_.args[slot][m];
      case Op::read:
        return data_.states[slot][m];
      case Op::present:
        return Bits::of(data_.tensors[m].present);
      case Op::tensor_index:
        return Bits::of(static_cast<int32_t>(m));
      case Op::element_count:
        return Bits::of(static_cast<int64_t>(data_.tensors[m].element_count()));
      case Op::column_count:
        return Bits::of(static_cast<int64_t>(data_.tensors[m].column_count()));
      default:
        break;
    }
    Bits in[3];
    for (size_t i = 0; i < static_cast<size_t>(inst.arity()); ++i) {
      in[i] = uniform_at(inst.operands[i], inst.type.at, m);
    }
    if (reads_table(inst.op)) return ask_table(inst, in[0]);
    DType first = p_[inst.operands[0]].type.dtype;
    if (inst.op == Op::powi) {
      return sem::evaluate_powi(first, p_[inst.operands[1]].type.dtype, in[0], in[1]);
    }
    // A cast to a bound type that is not per element is made per tensor, when the value is stored.
    if (inst.type.dtype == DType::bound) return in[0];
    return sem::evaluate(inst.op, first, inst.type.dtype, in[0], in[1], in[2]);
  }

  Bits ask_table(const Inst& inst, Bits a) const {
    const std::vector<float>& values = p_.tables[static_cast<size_t>(inst.slot)].values;
    return inst.op == Op::lookup ? Bits::of(table_value(values, a.i32()))
                                 : Bits::of(nearest_code(values, a.f32()));
  }

  void reduce(const Inst& inst, ValueId v, std::vector<Bits>& out) {
    std::vector<std::vector<Bits>> parts(out.size());
    ValueId operand = inst.operands[0];
    Granularity from = p_[operand].type.at;
    Granularity to = inst.type.at;
    auto add_all = [&](Granularity g, const std::vector<Bits>& values) {
      for (size_t m = 0; m < values.size(); ++m) parts[member_of(to, g, m)].push_back(values[m]);
    };
    if (!is_tile(from)) {
      add_all(from, uniform_[index(operand)]);
    } else if (partials_of(to) == per::piece) {
      for (const auto& [m, value] : pieces_[index(v)])
        parts[member_of(to, owner_, m)].push_back(value);
    } else {
      add_all(*partials_of(to), combined_[index(v)]);
    }
    for (size_t m = 0; m < out.size(); ++m) {
      out[m] = fold_values(inst.op, inst.type.dtype, std::move(parts[m]));
    }
  }

  // --- elements

  void run_elements(int level) {
    bool last = level == last_level_;
    element_code_.clear();
    spread_.clear();
    for (ValueId v = 0; v < p_.size(); ++v) {
      const Inst& inst = p_[v];
      bool is_known =
          is_of_elements(inst.type.at) && !is_effect(inst.op) && level_[index(v)] <= level;
      if (is_known) (is_spread(inst) ? spread_ : element_code_).push_back(v);
    }
    for (size_t t = 0; t < data_.tensors.size(); ++t) {
      const StepTensor& tensor = data_.tensors[t];
      uint64_t begin = 0;
      while (begin < tensor.size) {
        // Position within the unit that is cut into pieces: the tensor, or one of its rows.
        uint64_t position = begin;
        uint64_t end = tensor.size;
        if (has_rows_) {
          line_ = begin / tensor.column_count();
          position = begin - line_ * tensor.column_count();
          column_ = position;
          end = std::min(end, begin - position + tensor.column_count());
        }
        uint64_t to_border = kPieceElements - position % kPieceElements;
        int n = static_cast<int>(std::min<uint64_t>(to_border, end - begin));
        if (tensor.present) compute_piece(t, begin, n);
        feed_reductions(t, level, position, n);
        if (last && tensor.present) store_piece(t, begin, n);
        begin += static_cast<uint64_t>(n);
      }
    }
  }

  DType dtype_of(ValueId v, size_t tensor) const {
    const Type& t = p_[v].type;
    return t.dtype == DType::bound ? data_.tensors[tensor].dtypes[static_cast<size_t>(t.buffer)]
                                   : t.dtype;
  }

  Column column(ValueId v, size_t tensor, uint32_t& broadcast) const {
    if (v == kNoValue) return {};
    if (is_of_elements(p_[v].type.at)) return {columns_[index(v)].get(), 1};
    broadcast = static_cast<uint32_t>(uniform_in_tensor(v, tensor).raw);
    return {&broadcast, 0};
  }

  // Returns a coarser value as the elements of a tensor see it: bound casts are made here.
  Bits uniform_in_tensor(ValueId v, size_t tensor) const {
    Bits bits = uniform_here(v, tensor);
    if (p_[v].type.dtype != DType::bound) return bits;
    return sem::cast(bits, DType::f32, dtype_of(v, tensor));
  }

  // Returns the array of a value for the current piece.
  uint32_t* values_of(ValueId v) {
    auto& values = columns_[index(v)];
    if (!values) values = std::make_unique<uint32_t[]>(kPieceElements);
    return values.get();
  }
  // Whether pieces share the array of its values: per-column values, and results that combine rows.
  static bool is_spread(const Inst& inst) { return !is_tile(inst.type.at) || is_folded(inst); }
  const std::vector<Bits>& array_of(ValueId v) const {
    return is_tile(p_[v].type.at) ? combined_[index(v)] : uniform_[index(v)];
  }
  // Gives each element of the current piece the value of its column or tile.
  void spread(size_t t, int n) {
    for (ValueId v : spread_) {
      Granularity at = p_[v].type.at;
      uint32_t* out = values_of(v);
      const Bits* values = array_of(v).data() + members(at).first[t];
      DType to = dtype_of(v, t);
      bool narrows = p_[v].type.dtype == DType::bound;
      for (uint64_t i = 0; i < static_cast<uint64_t>(n); ++i) {
        Bits value = values[tile_index(at, shapes_[t], line_, column_ + i)];
        out[i] = static_cast<uint32_t>((narrows ? sem::cast(value, DType::f32, to) : value).raw);
      }
    }
  }

  void compute_piece(size_t t, uint64_t begin, int n) {
    spread(t, n);
    for (ValueId v : element_code_) {
      const Inst& inst = p_[v];
      uint32_t* out = values_of(v);
      if (inst.op == Op::load) {
        load(t, static_cast<size_t>(inst.slot), begin, n, out);
      } else if (inst.op == Op::element_index) {
        uint64_t position = data_.tensors[t].offset + begin;
        for (int i = 0; i < n; ++i) {
          out[static_cast<size_t>(i)] = static_cast<uint32_t>(position + static_cast<uint64_t>(i));
        }
      } else if (inst.op == Op::random) {
        draw(t, inst, data_.tensors[t].offset + begin, n, out);
      } else if (reduces_blocks(inst)) {
        reduce_blocks(inst, columns_[index(inst.operands[0])].get(), n, out);
      } else if (reads_table(inst.op)) {
        uint32_t broadcast = 0;
        Column a = column(inst.operands[0], t, broadcast);
        for (int i = 0; i < n; ++i) {
          out[static_cast<size_t>(i)] =
              static_cast<uint32_t>(ask_table(inst, Bits{a.data[i * a.stride]}).raw);
        }
      } else {
        uint32_t broadcast[3];
        Column a = column(inst.operands[0], t, broadcast[0]);
        Column b = column(inst.operands[1], t, broadcast[1]);
        Column c = column(inst.operands[2], t, broadcast[2]);
        evaluate_column(inst.op, dtype_of(inst.operands[0], t), dtype_of(v, t), n, a, b, c, out);
      }
    }
  }

  void draw(size_t t, const Inst& inst, uint64_t position, int n, uint32_t* out) const {
    auto operand = [&](size_t i) { return uniform_here(inst.operands[i], t); };
    RandomKey key{operand(0).raw, operand(1).raw, operand(2).u32(), data_.tensors[t].id};
    constexpr uint64_t kTogether = kDrawnTogether;
    for (uint64_t i = 0; i < static_cast<uint64_t>(n); ++i) {
      uint64_t at = position + i;
      out[i] = random_block(key, at / kTogether)[at % kTogether];
    }
  }

  // Returns the address of the piece's first value in an array, and the dtype and stride of its elements.
  char* array(size_t t, size_t buffer, uint64_t begin) const {
    const StepTensor& tensor = data_.tensors[t];
    Granularity at = p_.buffers[buffer].at;
    uint64_t first = needs_rows(at) ? tile_index(at, shapes_[t], line_, column_)
                                    : begin / static_cast<uint64_t>(block_of(at));
    return static_cast<char*>(tensor.data[buffer]) + first * size_of(tensor.dtypes[buffer]);
  }
  bool has(size_t t, size_t buffer) const {
    return p_.buffers[buffer].is_of(data_.tensors[t].element_count());
  }
  void load(size_t t, size_t buffer, uint64_t begin, int n, uint32_t* out) const {
    if (!has(t, buffer)) {
      std::fill(out, out + n, 0);
      return;
    }
    DType d = data_.tensors[t].dtypes[buffer];
    int block = block_of(p_.buffers[buffer].at);
    const char* p = array(t, buffer, begin);
    by_width(d, [&](auto value) {
      for (int i = 0; i < n; i += block, p += sizeof value) {
        std::memcpy(&value, p, sizeof value);
        std::fill(out + i, out + std::min(i + block, n), uint32_t{value});
      }
    });
  }

  void feed_reductions(size_t t, int level, uint64_t position, int n) {
    for (ValueId v = 0; v < p_.size(); ++v) {
      const Inst& inst = p_[v];
      if (!is_folded(inst) || level_[index(v)] != level + 1) continue;
      ValueId operand = inst.operands[0];
      if (!is_tile(p_[operand].type.at)) continue;
      if (partials_of(inst.type.at) != per::piece) {
        combine_row(v, t, n);
        continue;
      }
      PieceReducer reducer(inst.op, inst.type.dtype);
      if (data_.tensors[t].present) {
        const uint32_t* values = columns_[index(operand)].get();
        for (int i = 0; i < n; ++i) {
          reducer.add(position + static_cast<uint64_t>(i), Bits{values[i]});
        }
      }
      pieces_[index(v)].emplace_back(member_at(owner_, t, line_, 0), reducer.fold());
    }
  }

  // Combines rows in ascending order, column by column of a strip, or tile by tile.
  void combine_row(ValueId v, size_t t, int n) {
    const Inst& inst = p_[v];
    Granularity at = partials_of(inst.type.at).value_or(inst.type.at);
    std::vector<Bits>& all = combined_[index(v)];
    all.resize(count(at), reduction_identity(inst.op, inst.type.dtype));
    if (!data_.tensors[t].present) return;
    const uint32_t* values = columns_[index(inst.operands[0])].get();
    for (int i = 0; i < n; i += at.columns) {
      Bits own = at.columns == 1 ? Bits{values[i]} : fold_block(inst, values + i, n - i);
      Bits& so_far = all[member_at(at, t, line_, column_ + static_cast<uint64_t>(i))];
      so_far = reduction_combine(inst.op, inst.type.dtype, so_far, own);
    }
  }

  void store_piece(size_t t, uint64_t begin, int n) {
    const StepTensor& tensor = data_.tensors[t];
    for (const Inst& inst : p_.insts) {
      if (inst.op != Op::store) continue;
      auto buffer = static_cast<size_t>(inst.slot);
      if (!has(t, buffer)) continue;
      DType d = tensor.dtypes[buffer];
      uint32_t broadcast[2];
      Column value = column(inst.operands[0], t, broadcast[0]);
      Column predicate = column(inst.predicate, t, broadcast[1]);
      char* p = array(t, buffer, begin);
      int block = block_of(p_.buffers[buffer].at);
      by_width(d, [&](auto element) {
        for (int i = 0; i < n; i += block, p += sizeof element) {
          bool on = predicate.data == nullptr || predicate.data[i * predicate.stride] != 0;
          element = static_cast<decltype(element)>(value.data[i * value.stride]);
          if (on) std::memcpy(p, &element, sizeof element);
        }
      });
    }
  }

  // --- buffers in a different order

  // Fills the buffer with the values that its source has now.
  void arrange(size_t buffer) const {
    const Buffer& b = p_.buffers[buffer];
    auto source = static_cast<size_t>(b.arranges);
    for (size_t t = 0; t < data_.tensors.size(); ++t) {
      const StepTensor& tensor = data_.tensors[t];
      if (!tensor.present || tensor.size == 0 || !has(t, buffer)) continue;
      by_width(tensor.dtypes[buffer], [&](auto value) {
        using Word = decltype(value);
        arrange_tensor(b, packs_codes(b.at, tensor.dtypes[buffer]),
                       shape_of(tensor.size, tensor.column_count()),
                       static_cast<const Word*>(tensor.data[source]),
                       static_cast<Word*>(tensor.data[buffer]));
      });
    }
  }
  template <class Word>
  static void arrange_tensor(const Buffer& b, bool packs, TensorShape shape, const Word* from,
                             Word* to) {
    ArrangedShape matrix = arranged_shape(b.order, b.at, shape);
    if (b.order.swizzled) std::fill(to, to + arranged_count(b.order, b.at, shape), Word{0});
    for (uint64_t line = 0; line < matrix.lines; ++line) {
      for (uint64_t place = 0; place < matrix.places; ++place) {
        Word value{};
        if (packs && b.order.transposed) {
          value = static_cast<Word>(transposed_codes(from, shape, line, place * 8));
        } else {
          // The first element that has the value.
          uint64_t row = line * static_cast<uint64_t>(b.at.rows);
          uint64_t column = place * static_cast<uint64_t>(b.at.columns);
          if (b.order.transposed) std::swap(row, column);
          std::memcpy(&value, from + tile_index(b.at, shape, row, column), sizeof value);
        }
        std::memcpy(to + arranged_index(b.order, matrix, line, place), &value, sizeof value);
      }
    }
  }
  // Returns the codes of a column in the eight rows from `row` on.
  template <class Word>
  static uint32_t transposed_codes(const Word* from, TensorShape shape, uint64_t column,
                                   uint64_t row) {
    uint32_t codes = 0;
    for (uint32_t i = 0; i < 8; ++i) {
      Word word{};
      std::memcpy(&word, from + tile_index(per::block(8), shape, row + i, column), sizeof word);
      codes |= (uint32_t{word} >> column % 8 * 4 & 15U) << 4 * i;
    }
    return codes;
  }

  // --- states

  void write_state(const Inst& inst) {
    auto slot = static_cast<size_t>(inst.slot);
    Granularity d = p_.states[slot].type.at;
    for (size_t m = 0; m < count(d); ++m) {
      if (d.scope == Scope::tensor && !data_.tensors[members(d).tensor[m]].present) continue;
      if (inst.predicate != kNoValue && !uniform_at(inst.predicate, d, m).b()) continue;
      data_.states[slot][m] = uniform_at(inst.operands[0], d, m);
    }
  }

  const Program& p_;
  StepData& data_;
  const std::vector<Reduced>* given_ = nullptr;
  int last_level_ = 0;
  std::vector<int> level_;
  std::vector<std::vector<Bits>> uniform_;            // [value][member of its granularity]
  std::vector<std::unique_ptr<uint32_t[]>> columns_;  // [value] for the current piece
  std::vector<std::vector<std::pair<size_t, Bits>>>
      pieces_;  // [reduction] (member of owner_, result)
  std::vector<std::vector<Bits>>
      combined_;  // [reduction that combines rows][strip and column, or tile]
  std::vector<ValueId> element_code_;
  std::vector<ValueId> spread_;
  bool has_rows_;
  Granularity owner_;                // granularity that pieces belong to
  std::vector<TensorShape> shapes_;  // [tensor] as the program sees it
  std::vector<Members> members_;
  uint64_t line_ = 0;    // row of the current piece,
  uint64_t column_ = 0;  // and column of its first element
};

}  // namespace

void interpret(const Program& program, StepData& data) { Interpreter(program, data).run({}); }
void interpret(const Program& program, StepData& data, const std::vector<Reduced>& given) {
  Interpreter(program, data).run(given);
}
void interpret_reductions(const Program& program, StepData& data, std::vector<Reduced>& wanted) {
  Interpreter(program, data).reduce_only(wanted);
}

}  // namespace stepfuse
