// Runs a Program as the language defines it. Knows ir only.
//
// A value's level is the number of reductions it depends on. Level by level: first the values of
// the coarser domains, then one pass over all elements that computes every element value up to the
// level and feeds the reductions whose operands are of that level. The last pass also stores. A
// piece's loads precede its stores and pieces are disjoint, so loads see the contents from before
// the step; states are written at the very end.
#include "ir/semantics/interpreter.hpp"

#include <algorithm>
#include <memory>

#include "ir/formats/code_table.hpp"
#include "ir/semantics/element_ops.hpp"
#include "ir/semantics/fp_env.hpp"
#include "ir/semantics/random.hpp"
#include "ir/semantics/reduction.hpp"
#include "ir/semantics/semantics.hpp"

namespace stepfuse {
namespace {

class Interpreter {
 public:
  Interpreter(const Program& p, StepData& data)
      : p_(p),
        data_(data),
        level_(p.insts.size(), 0),
        uniform_(p.insts.size()),
        columns_(p.insts.size()),
        pieces_(p.insts.size()),
        strips_(p.insts.size()),
        squares_(p.insts.size()),
        has_rows_(has_rows(p)) {
    for (size_t t = 0; t < data.tensors.size(); ++t) {
      first_row_.push_back(row_tensors_.size());
      if (has_rows_) row_tensors_.resize(first_row_[t] + data.tensors[t].row_count(), t);
      first_square_.push_back(square_count_);
      square_count_ += square_count(data.tensors[t].size, data.tensors[t].column_count());
      first_column_.push_back(column_tensors_.size());
      if (has_columns(p)) {
        column_tensors_.resize(first_column_[t] + data.tensors[t].own_columns(), t);
      }
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

  size_t count(Domain d) const {
    if (d == Domain::step) return 1;
    if (d == Domain::row) return row_tensors_.size();
    if (d == Domain::column) return column_tensors_.size();
    return d == Domain::group ? static_cast<size_t>(data_.group_count) : data_.tensors.size();
  }

  // The value of `v` for member `m` of domain `d`, broadcast from v's own domain.
  Bits uniform_at(ValueId v, Domain d, size_t m) const {
    return uniform_[index(v)][member_of(p_[v].type.domain, d, m)];
  }
  // The member of `coarse` that member `m` of domain `d` belongs to.
  size_t member_of(Domain coarse, Domain d, size_t m) const {
    if (coarse == Domain::step) return 0;
    if (coarse < Domain::row && d >= Domain::row) {
      m = (d == Domain::row ? row_tensors_ : column_tensors_)[m];
      d = Domain::tensor;
    }
    return coarse == Domain::group && d > Domain::group ? group_of(m) : m;
  }
  // What an element's values are of: the row at hand, else the tensor.
  Bits uniform_here(ValueId v, size_t tensor) const {
    return has_rows_ ? uniform_at(v, Domain::row, row_) : uniform_at(v, Domain::tensor, tensor);
  }
  size_t group_of(size_t tensor) const { return static_cast<size_t>(data_.tensors[tensor].group); }

  // --- the coarser domains

  void evaluate_uniforms(int level) {
    for (ValueId v = 0; v < p_.size(); ++v) {
      bool uniform = p_[v].type.domain != Domain::element && !is_effect(p_[v].op);
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
    out.assign(count(inst.type.domain), {});
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
      in[i] = uniform_at(inst.operands[i], inst.type.domain, m);
    }
    if (reads_table(inst.op)) return ask_table(inst, in[0]);
    DType first = p_[inst.operands[0]].type.dtype;
    if (inst.op == Op::powi) {
      return sem::evaluate_powi(first, p_[inst.operands[1]].type.dtype, in[0], in[1]);
    }
    // A cast to a bound type outside the element domain is made where it is stored, per tensor.
    if (inst.type.dtype == DType::bound) return in[0];
    return sem::evaluate(inst.op, first, inst.type.dtype, in[0], in[1], in[2]);
  }

  Bits ask_table(const Inst& inst, Bits a) const {
    const std::vector<float>& values = p_.tables[static_cast<size_t>(inst.slot)].values;
    return inst.op == Op::lookup ? Bits::of(table_value(values, a.i32()))
                                 : Bits::of(nearest_code(values, a.f32()));
  }

  void reduce(const Inst& inst, ValueId v, std::vector<Bits>& out) {
    std::vector<std::vector<Bits>> members(out.size());
    ValueId operand = inst.operands[0];
    Domain from = p_[operand].type.domain;
    Domain to = inst.type.domain;
    if (to == Domain::column) {
      fold_strips(v, members);
    } else if (from == Domain::element) {
      Domain owner = has_rows_ ? Domain::row : Domain::tensor;
      for (const auto& [m, value] : pieces_[index(v)]) {
        members[member_of(to, owner, m)].push_back(value);
      }
    } else {
      for (size_t m = 0; m < count(from); ++m) {
        members[member_of(to, from, m)].push_back(uniform_[index(operand)][m]);
      }
    }
    for (size_t m = 0; m < out.size(); ++m) {
      out[m] = fold_values(inst.op, inst.type.dtype, std::move(members[m]));
    }
  }

  // Of each column, what the strips of its tensor left.
  void fold_strips(ValueId v, std::vector<std::vector<Bits>>& members) const {
    for (size_t c = 0; c < members.size(); ++c) {
      size_t t = column_tensors_[c];
      size_t columns = data_.tensors[t].own_columns();
      const std::vector<Bits>& strips = strips_[index(v)][t];
      for (size_t at = c - first_column_[t]; at < strips.size(); at += columns) {
        members[c].push_back(strips[at]);
      }
    }
  }

  // --- elements

  void run_elements(int level) {
    bool last = level == last_level_;
    element_code_.clear();
    column_values_.clear();
    square_values_.clear();
    for (ValueId v = 0; v < p_.size(); ++v) {
      const Inst& inst = p_[v];
      bool is_value = inst.type.domain == Domain::element && !is_effect(inst.op);
      if (is_value && level_[index(v)] <= level) {
        (reduces_squares(inst) ? square_values_ : element_code_).push_back(v);
      }
      bool of_columns = inst.type.domain == Domain::column && !is_effect(inst.op);
      if (of_columns && level_[index(v)] <= level) column_values_.push_back(v);
    }
    for (size_t t = 0; t < data_.tensors.size(); ++t) {
      const StepTensor& tensor = data_.tensors[t];
      uint64_t begin = 0;
      while (begin < tensor.size) {
        uint64_t position =
            tensor.offset + begin;  // in what has pieces: the tensor, or a row of it
        uint64_t end = tensor.size;
        if (has_rows_) {
          uint64_t row = begin / tensor.column_count();
          row_ = first_row_[t] + row;
          position = begin - row * tensor.column_count();
          line_ = row;
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
    if (is_of_elements(p_[v].type.domain)) return {columns_[index(v)].get(), 1};
    broadcast = static_cast<uint32_t>(uniform_in_tensor(v, tensor).raw);
    return {&broadcast, 0};
  }

  // A coarser value as the elements of a tensor see it: bound casts are made here.
  Bits uniform_in_tensor(ValueId v, size_t tensor) const {
    Bits bits = uniform_here(v, tensor);
    if (p_[v].type.dtype != DType::bound) return bits;
    return sem::cast(bits, DType::f32, dtype_of(v, tensor));
  }

  // Of the current piece.
  uint32_t* values_of(ValueId v) {
    auto& values = columns_[index(v)];
    if (!values) values = std::make_unique<uint32_t[]>(kPieceElements);
    return values.get();
  }
  // To each element of a row's piece its column's value.
  void spread_columns(size_t t, int n) {
    for (ValueId v : column_values_) {
      uint32_t* out = values_of(v);
      const Bits* values = uniform_[index(v)].data() + first_column_[t] + column_;
      DType to = dtype_of(v, t);
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        bool narrows = p_[v].type.dtype == DType::bound;
        out[i] =
            static_cast<uint32_t>((narrows ? sem::cast(values[i], DType::f32, to) : values[i]).raw);
      }
    }
  }

  // Of element i of the piece, in its tensor.
  uint64_t square_at(size_t t, int i) const {
    constexpr uint64_t kSide = kSquareSide;
    uint64_t per_row = (data_.tensors[t].column_count() + kSide - 1) / kSide;
    return line_ / kSide * per_row + (column_ + static_cast<uint64_t>(i)) / kSide;
  }
  // To each element its square's value.
  void spread_squares(size_t t, int n) {
    for (ValueId v : square_values_) {
      uint32_t* out = values_of(v);
      const Bits* values = squares_[index(v)].data() + first_square_[t];
      for (int i = 0; i < n; ++i) {
        out[static_cast<size_t>(i)] = static_cast<uint32_t>(values[square_at(t, i)].raw);
      }
    }
  }

  void compute_piece(size_t t, uint64_t begin, int n) {
    spread_columns(t, n);
    spread_squares(t, n);
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
    for (uint64_t i = 0; i < static_cast<uint64_t>(n); ++i) {
      out[i] = random_block(key, (position + i) / 4)[(position + i) % 4];
    }
  }

  // A piece's part of an array, and what stands there for element i of it.
  char* array(size_t t, size_t buffer, uint64_t begin) const {
    const StepTensor& tensor = data_.tensors[t];
    auto first = p_.buffers[buffer].is_square()
                     ? square_at(t, 0)
                     : begin / static_cast<uint64_t>(p_.buffers[buffer].block);
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
    int block = p_.buffers[buffer].block;
    const char* p = array(t, buffer, begin);
    for (int i = 0; i < n; ++i) {
      auto at = static_cast<size_t>(i / block) * size_of(d);
      out[i] = static_cast<uint32_t>(load_bits(p + at, d).raw);
    }
  }

  void feed_reductions(size_t t, int level, uint64_t position, int n) {
    for (ValueId v = 0; v < p_.size(); ++v) {
      const Inst& inst = p_[v];
      if (!is_folded(inst) || level_[index(v)] != level + 1) continue;
      ValueId operand = inst.operands[0];
      if (p_[operand].type.domain != Domain::element) continue;
      if (inst.type.domain == Domain::column) {
        add_to_strip(v, t, n);
        continue;
      }
      if (reduces_squares(inst)) {
        add_to_squares(v, t, n);
        continue;
      }
      PieceReducer reducer(inst.op, inst.type.dtype);
      if (data_.tensors[t].present) {
        const uint32_t* values = columns_[index(operand)].get();
        for (int i = 0; i < n; ++i) {
          reducer.add(position + static_cast<uint64_t>(i), Bits{values[i]});
        }
      }
      pieces_[index(v)].emplace_back(has_rows_ ? row_ : t, reducer.fold());
    }
  }

  // A column of a strip combines its elements in the order of rows.
  void add_to_strip(ValueId v, size_t t, int n) {
    const Inst& inst = p_[v];
    const StepTensor& tensor = data_.tensors[t];
    std::vector<std::vector<Bits>>& all = strips_[index(v)];
    all.resize(data_.tensors.size());
    size_t columns = tensor.own_columns();
    size_t count = (tensor.row_count() + kStripRows - 1) / kStripRows;
    if (all[t].empty()) {
      all[t].assign(count * columns, reduction_identity(inst.op, inst.type.dtype));
    }
    if (!tensor.present) return;
    const uint32_t* values = columns_[index(inst.operands[0])].get();
    Bits* at = all[t].data() + line_ / kStripRows * columns + column_;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      at[i] = reduction_combine(inst.op, inst.type.dtype, at[i], Bits{values[i]});
    }
  }

  // What a row makes is combined in the order of rows.
  void add_to_squares(ValueId v, size_t t, int n) {
    const Inst& inst = p_[v];
    std::vector<Bits>& all = squares_[index(v)];
    all.resize(square_count_, reduction_identity(inst.op, inst.type.dtype));
    if (!data_.tensors[t].present) return;
    const uint32_t* values = columns_[index(inst.operands[0])].get();
    for (int first = 0; first < n; first += kSquareSide) {
      Bits& at = all[first_square_[t] + square_at(t, first)];
      at = reduction_combine(inst.op, inst.type.dtype, at,
                             fold_block(inst, values + first, n - first));
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
      int block = p_.buffers[buffer].block;
      for (int i = 0; i < n; i += block, p += size_of(d)) {
        bool on = predicate.data == nullptr || predicate.data[i * predicate.stride] != 0;
        if (on) store_bits(p, d, Bits{value.data[i * value.stride]});
      }
    }
  }

  // --- states

  void write_state(const Inst& inst) {
    auto slot = static_cast<size_t>(inst.slot);
    Domain d = p_.states[slot].type.domain;
    for (size_t m = 0; m < count(d); ++m) {
      if (d >= Domain::tensor && !data_.tensors[member_of(Domain::tensor, d, m)].present) continue;
      if (inst.predicate != kNoValue && !uniform_at(inst.predicate, d, m).b()) continue;
      data_.states[slot][m] = uniform_at(inst.operands[0], d, m);
    }
  }

  const Program& p_;
  StepData& data_;
  const std::vector<Reduced>* given_ = nullptr;
  int last_level_ = 0;
  std::vector<int> level_;
  std::vector<std::vector<Bits>> uniform_;                    // [value][member of its domain]
  std::vector<std::unique_ptr<uint32_t[]>> columns_;          // [value] of the current piece
  std::vector<std::vector<std::pair<size_t, Bits>>> pieces_;  // [reduction] (row or tensor, result)
  // [reduction to columns][tensor] a value for each strip and column, strip by strip
  std::vector<std::vector<std::vector<Bits>>> strips_;
  std::vector<std::vector<Bits>> squares_;  // [reduction to squares] so far, or at last
  std::vector<ValueId> element_code_;
  std::vector<ValueId> column_values_;
  std::vector<ValueId> square_values_;
  bool has_rows_;
  std::vector<size_t> row_tensors_;     // [row]
  std::vector<size_t> first_row_;       // [tensor]
  size_t row_ = 0;                      // of the piece at hand
  uint64_t line_ = 0;                   // its row in the tensor
  size_t column_ = 0;                   // of its first element
  std::vector<size_t> column_tensors_;  // [column]
  std::vector<size_t> first_column_;    // [tensor]
  std::vector<size_t> first_square_;    // [tensor]
  size_t square_count_ = 0;
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
