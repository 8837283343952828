// Writes a plan as one C file: a function per phase and rollup, and one that calls them in order. Knows the
// plan and the embedded prelude.
#include "compiler/c/emit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "compiler/abi.hpp"
#include "compiler/c/ops.hpp"
#include "compiler/c/tables.hpp"
#include "compiler/embedded.hpp"
#include "compiler/text.hpp"
#include "ir/semantics/reduction.hpp"

namespace stepfuse {
namespace {
using namespace c;
using plan::Id;
using plan::Inst;
using plan::kNone;

class Emitter {
 public:
  explicit Emitter(const KernelPlan& plan) : plan_(plan) {}

  std::string run() {
    std::set<std::string> reducers;
    for (const plan::Reduction& r : plan_.reductions) {
      reducers.insert(fmt::format("SF_REDUCTION({}, {}, {}, {})", reducer(r), memory_type(r.dtype),
                                  literal(reduction_identity(r.op, r.dtype), r.dtype),
                                  r.op == Op::reduce_any ? "sf_or" : "sf_" + suffix(r)));
    }
    for (const std::string& line : reducers) out_.line(line);
    for (const plan::Table& t : plan_.tables) emit_table(out_, t);
    for (size_t p = 0; p < plan_.phases.size(); ++p) emit_phase(p);
    emit_finish();
    emit_run();
    return out_.str();
  }

 private:
  // --- names

  std::string operand(Id v) const {
    const plan::Value& value = plan_[v];
    return value.is_constant ? literal(value.literal, value.dtype) : value.name;
  }
  static std::string suffix(const plan::Reduction& r) {
    return fmt::format("{}_{}", info(reduction_combiner(r.op)).name, name(r.dtype));
  }
  // Returns the name of the function family that folds these values.
  static std::string reducer(const plan::Reduction& r) {
    return r.op == Op::reduce_any ? "sf_fold_any" : "sf_fold_" + suffix(r);
  }
  static std::string entry(std::string_view table, int32_t index, DType t, std::string_view place) {
    return fmt::format("(({}*)ctx->{}[{}])[{}]", memory_type(t), table, index, place);
  }
  // Returns the index of the current member.
  static std::string_view place(Granularity g) {
    return g == per::step ? "0" : g == per::tensor ? "tensor_index" : info(g).name;
  }
  static std::string_view count(Granularity g) {
    return g == per::group ? "ctx->group_count" : "ctx->tensor_count";
  }
  std::string slot(int32_t r, std::string_view place) const {
    return entry("slots", r, plan_.reduction(r).dtype, place);
  }

  std::string_view chunk_slot() const { return plan_.rows_in_order > 0 ? "chunk->slot" : "c"; }

  // --- code

  std::string source(const Inst& inst) const {
    Granularity at = plan_[inst.value].at;
    if (auto owner = plan::owner_of(inst)) {
      return entry(plan::context_array(*owner), inst.index, inst.out, place(at));
    }
    if (inst.op == Op::arg) return argument(inst, at);
    std::string operands[3];
    for (int i = 0; i < inst.arity(); ++i) {
      operands[i] = operand(inst.operands[static_cast<size_t>(i)]);
    }
    if (reads_table(inst.op)) {
      const plan::Table& t = plan_.table(inst);
      return inst.op == Op::lookup ? fmt::format("{}({})", t.name, operands[0])
                                   : fmt::format("{}({})", t.bounds_name, operands[0]);
    }
    return expression(inst.op, inst.in, inst.out, operands[0], operands[1], operands[2]);
  }
  std::string argument(const Inst& inst, Granularity at) const {
    const ArgLayout& args = plan_.args;
    std::string row = at == per::step ? "step_args"
                      : at == per::group
                          ? fmt::format("group_args + (uint64_t)group * {}", args.group_words)
                          : fmt::format(
                                "group_args + (uint64_t)ctx->group_count * {} + "
                                "(uint64_t)tensor_index * {}",
                                args.group_words, args.tensor_words);
    return fmt::format("sf_arg_{}(ctx->{} + {})", name(inst.out), row, inst.index);
  }
  void emit_value(const Inst& inst, const std::string& expression) {
    const plan::Value& value = plan_[inst.value];
    out_.line(fmt::format("const {} {} = {};", value_type(inst.out), value.name, expression),
              value.text);
  }
  void emit_code(const std::vector<Inst>& code) {
    for (const Inst& inst : code) emit_value(inst, source(inst));
  }

  void open_function(std::string_view name, std::string_view more = "") {
    out_.blank();
    out_.open(fmt::format("void {}(const sf_context* ctx{})", name, more));
  }

  // Writes the code of the current tensor and of its group.
  void enter_tensor(const plan::Uniform& code) {
    if (code.has(per::group)) out_.line("const uint32_t group = tensor->group;");
    emit_code(code.of(per::group));
    emit_code(code.of(per::tensor));
  }

  // --- phases

  void emit_phase(size_t number) {
    const plan::Phase& phase = plan_.phases[number];
    for (size_t r = 0; r < phase.rollups.size(); ++r) {
      emit_rollup(phase.rollups[r], fmt::format("sf_rollup_{}_{}", number, r));
    }
    if (!phase.has_work()) return;
    open_function(fmt::format("sf_phase_{}", number), ", uint32_t begin, uint32_t end");
    emit_code(phase.uniform.of(per::step));
    if (phase.guards == plan::Guard::launch) {
      out_.line(fmt::format("if (!{}) return;", operand(phase.guard)));
    }
    out_.open("for (uint32_t c = begin; c < end; ++c)");
    out_.line("const sf_chunk* const chunk = ctx->chunks + c;");
    out_.line("const uint32_t tensor_index = chunk->tensor;");
    out_.line("const sf_tensor* const tensor = ctx->tensors + tensor_index;");
    out_.open("if ((tensor->flags & SF_PRESENT) == 0)");
    for (int32_t r : plan_.reductions_in(phase, per::piece)) {
      const plan::Reduction& reduction = plan_.reduction(r);
      out_.line(
          fmt::format("{} = {};", slot(r, chunk_slot()),
                      literal(reduction_identity(reduction.op, reduction.dtype), reduction.dtype)));
    }
    out_.line("continue;");
    out_.close();
    enter_tensor(phase.uniform);
    if (phase.uniform.has(per::row)) {
      out_.line(
          fmt::format("const uint64_t row = ctx->parts[{}].begin[tensor_index] + "
                      "chunk->begin / tensor->columns;",
                      abi::kRowsOfTensors));
    }
    emit_code(phase.uniform.of(per::row));
    if (plan_.rows_in_order > 0) {
      out_.line("const uint64_t line = chunk->begin / tensor->columns;");
      out_.line("const uint64_t column = chunk->begin % tensor->columns;");
    }
    if (phase.guards != plan::Guard::chunk) {
      emit_bodies(phase.bodies);
    } else {
      out_.open(fmt::format("if ({})", operand(phase.guard)));
      emit_bodies(phase.bodies);
      if (!phase.otherwise.empty()) {
        out_.close("} else {");
        out_.reopen();
        emit_bodies(phase.otherwise);
      }
      out_.close();
    }
    out_.close();
    out_.close();
  }

  void emit_bodies(const plan::Bodies& bodies) {
    if (bodies.size() == 1) return emit_body(bodies[0]);
    out_.open("switch (chunk->signature)");
    for (const plan::Body& body : bodies) {
      for (uint32_t s : body.signatures) out_.line(fmt::format("case {}:", s));
      out_.open("");
      emit_body(body);
      out_.line("break;");
      out_.close();
    }
    out_.close();
  }

  const std::string& array(const plan::Body& body, int32_t index) const {
    return plan_.array(body.arrays[static_cast<size_t>(index)]).name;
  }

  // The number of the value that an element has, in an array where `block` elements share one.
  static std::string shared(std::string_view elements, int32_t block) {
    return block == 1 ? std::string(elements) : fmt::format("{} / {}", elements, block);
  }

  // Returns the index of the chunk's first value among those of its tensor.
  static std::string first_value(Granularity at) {
    if (!needs_rows(at)) return shared("chunk->begin", block_of(at));
    std::string per_row =
        at.columns == 1 ? "tensor->columns"
                        : fmt::format("((tensor->columns + {}) / {})", at.columns - 1, at.columns);
    std::string before = at.rows == kAll ? "" : fmt::format("line / {} * {} + ", at.rows, per_row);
    return before + shared("column", at.columns);
  }

  // The place of the tensor's first value in an array that rows are combined in.
  std::string base(Granularity at) const {
    return fmt::format("ctx->bases[(uint64_t)ctx->tensor_count * {} + tensor_index]",
                       plan_.base_of(at));
  }

  // Returns an array, and the position of the chunk's first value in it.
  std::pair<std::string, std::string> place_of(const plan::Array& a) const {
    using Owner = plan::Array::Owner;
    std::string first = first_value(a.at);
    if (a.owner == Owner::caller) {
      return {fmt::format("ctx->pointers[(uint64_t)tensor_index * {} + {}]", plan_.buffer_count,
                          a.index),
              first};
    }
    std::string array = fmt::format("ctx->{}[{}]", plan::context_array(a.owner), a.index);
    if (a.owner == Owner::scratch) {
      return {fmt::format("((char*){} + {} * {})", array,
                          shared("tensor->scratch_base", block_of(a.at)), a.max_bytes),
              first};
    }
    std::string of_tensor =
        a.is_combined() ? base(a.at)
                        : fmt::format("ctx->parts[{}].begin[tensor_index]", abi::kColumnsOfTensors);
    return {array, of_tensor + " + " + first};
  }

  void emit_body(const plan::Body& body) {
    for (const plan::ArrayUse& use : body.arrays) {
      const plan::Array& a = plan_.array(use);
      auto [base, first] = place_of(a);
      std::string type = memory_type(use.dtype);
      out_.line(fmt::format("{0}* const {1} = ({0}*){2} + {3};", type, a.name, base, first),
                fmt::format("{}, {}", a.text, name(use.dtype)));
    }
    for (const plan::Combine& c : body.reductions) {
      const plan::Reduction& r = plan_.reduction(c.reduction);
      out_.line(fmt::format("{} lanes_{}[SF_LANES];", memory_type(r.dtype), operand(r.value)));
      out_.line(fmt::format("{}_clear(lanes_{});", reducer(r), operand(r.value)));
    }
    if (body.unit > 1) open_unit(body);
    for (const plan::Pass& pass : body.passes) emit_pass(body, pass);
    if (body.unit > 1) out_.close();
    for (const plan::Combine& c : body.reductions) {
      const plan::Reduction& r = plan_.reduction(c.reduction);
      out_.line(fmt::format("{} = {}_lanes(lanes_{});", slot(c.reduction, chunk_slot()), reducer(r),
                            operand(r.value)));
    }
  }

  void emit_element(const plan::Body& body, const Inst& inst) {
    if (inst.op != Op::load) return emit_value(inst, source(inst));
    const plan::ArrayUse& use = body.arrays[static_cast<size_t>(inst.index)];
    const plan::Array& a = plan_.array(use);
    std::string value = fmt::format("{}[{}]", a.name, shared("i", block_of(a.at)));
    if (int32_t rows = plan::combined_rows(a, use)) {
      Bits identity = reduction_identity(plan_.reduction(a.index).op, inst.out);
      value = fmt::format("line % {} == 0 ? {} : {}", rows, literal(identity, inst.out), value);
    }
    emit_value(inst, value);
  }
  void emit_lane() {
    out_.line(plan_.has_rows
                  ? "const uint64_t lane = (chunk->begin % tensor->columns + i) % SF_LANES;"
                  : "const uint64_t lane = (chunk->begin + i) % SF_LANES;");
  }
  void emit_combine(const plan::Combine& c) {
    const plan::Reduction& r = plan_.reduction(c.reduction);
    std::string lane = fmt::format("lanes_{}[lane]", operand(r.value));
    std::string combine = r.op == Op::reduce_any ? "sf_or" : "sf_" + suffix(r);
    out_.line(fmt::format("{0} = {1}({0}, {2});", lane, combine, operand(c.operand)),
              plan_[r.value].text);
  }
  void emit_store(const plan::Body& body, const plan::Store& s) {
    const plan::ArrayUse& use = body.arrays[static_cast<size_t>(s.array)];
    std::string condition =
        s.predicate == kNone ? "" : fmt::format("if ({}) ", operand(s.predicate));
    out_.line(fmt::format("{}{}[{}] = {};", condition, array(body, s.array),
                          shared("i", block_of(plan_.array(use).at)),
                          expression(Op::cast, s.from, use.dtype, operand(s.value), "", "")),
              s.text);
  }

  // Values that later passes need are in arrays, kept_NAME, of a unit's length.
  void open_unit(const plan::Body& body) {
    out_.open(fmt::format("for (uint32_t unit = 0; unit < chunk->length; unit += {})", body.unit));
    out_.line("const uint32_t left = chunk->length - unit;");
    out_.line(fmt::format("const uint32_t end = unit + (left < {0} ? left : {0});", body.unit));
    std::map<Id, DType> kept;
    for (const Inst& inst : body.code) {
      if (inst.kept) kept[inst.value] = inst.out;
    }
    for (const auto& [v, t] : kept) {
      out_.line(fmt::format("{} kept_{}[{}];", memory_type(t), operand(v),
                            body.unit / block_of(plan_[v].at)));
    }
  }
  void emit_pass(const plan::Body& body, const plan::Pass& pass) {
    out_.open(body.unit == 1
                  ? "for (uint32_t i = 0; i < chunk->length; ++i)"
                  : fmt::format("for (uint32_t i = unit; i < end; i += {})", pass.block));
    auto place = [&](Id v) {
      return fmt::format("kept_{}[{}]", operand(v), shared("(i - unit)", block_of(plan_[v].at)));
    };
    std::set<Id> known;
    auto fetch = [&](Id v) {
      const Inst* input = body.input(pass, v);
      if (input == nullptr || !known.insert(v).second) return;
      out_.line(fmt::format("const {} {} = {};", value_type(input->out), operand(v), place(v)));
    };
    for (const Inst& inst : body.code_of(pass)) {
      if (inst.reduces_block()) {
        emit_block_reduction(inst);
      } else {
        for_each_operand(inst, fetch);
        emit_element(body, inst);
      }
      if (inst.kept) out_.line(fmt::format("{} = {};", place(inst.value), operand(inst.value)));
    }
    if (!pass.reductions.empty()) emit_lane();
    for (size_t r : pass.reductions) {
      fetch(body.reductions[r].operand);
      emit_combine(body.reductions[r]);
    }
    for (size_t s : pass.stores) {
      fetch(body.stores[s].value);
      fetch(body.stores[s].predicate);
      emit_store(body, body.stores[s]);
    }
    out_.close();
  }
  void emit_block_reduction(const Inst& inst) {
    plan::Reduction r{.op = inst.op, .dtype = inst.out};
    Bits identity = reduction_identity(inst.op, inst.out);
    std::string block = fmt::format("block_{}", operand(inst.value));
    int32_t size = block_of(plan_[inst.value].at);
    out_.line(fmt::format("{} {}[{}];", memory_type(inst.out), block, size));
    out_.line(
        fmt::format("for (uint32_t k = 0; k < {0}; ++k) {1}[k] = i + k < end ? kept_{2}[i - "
                    "unit + k] : {3};",
                    size, block, operand(inst.operands[0]), literal(identity, inst.out)));
    out_.line(fmt::format("for (uint32_t d = {} / 2; d > 0; d /= 2)", size));
    out_.line(fmt::format("  for (uint32_t k = 0; k < d; ++k) {0}[k] = {1}({0}[k], {0}[k + d]);",
                          block, inst.op == Op::reduce_any ? "sf_or" : "sf_" + suffix(r)));
    emit_value(inst, block + "[0]");
  }

  // --- between phases, and behind them

  // Opens a loop over the members of a granularity and evaluates their code.
  void open_members(Granularity g, const plan::Uniform& code, bool present_only) {
    Granularity outer = g == per::group ? g : per::tensor;
    out_.open(fmt::format("for (uint32_t {0} = 0; {0} < {1}; ++{0})", place(outer), count(outer)));
    if (g == per::group) return emit_code(code.of(g));
    out_.line("const sf_tensor* const tensor = ctx->tensors + tensor_index;");
    if (present_only) out_.line("if ((tensor->flags & SF_PRESENT) == 0) continue;");
    enter_tensor(code);
    if (!splits_tensor(g)) return;
    out_.line(fmt::format("const uint32_t* const own = ctx->parts[{}].begin + tensor_index;",
                          abi::partition_index(number_of(g), number_of(per::tensor))));
    out_.open(fmt::format("for (uint64_t {0} = own[0]; {0} < own[1]; ++{0})", place(g)));
    emit_code(code.of(g));
  }
  void close_members(Granularity g) {
    out_.close();
    if (splits_tensor(g)) out_.close();
  }

  void emit_rollup(const plan::Rollup& rollup, const std::string& name) {
    open_function(name);
    emit_code(rollup.uniform.of(per::step));
    open_members(rollup.from, rollup.uniform, false);
    for (const plan::Combine& c : rollup.reductions) {
      out_.line(fmt::format("{} = {};", slot(c.reduction, place(rollup.from)), operand(c.operand)),
                plan_[plan_.reduction(c.reduction).value].text);
    }
    close_members(rollup.from);
    out_.close();
  }

  void emit_finish() {
    open_function("sf_finish");
    emit_code(plan_.finish.step);
    const std::vector<plan::Writes>& blocks = plan_.finish.writes;
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      bool loops = block->at != per::step;
      if (loops) open_members(block->at, block->code, true);
      for (const plan::Write& w : block->writes) {
        DType t = plan_.states[static_cast<size_t>(w.state)].dtype;
        std::string condition =
            w.predicate == kNone ? "" : fmt::format("if ({}) ", operand(w.predicate));
        out_.line(fmt::format("{}{} = {};", condition,
                              entry("states", w.state, t, place(block->at)), operand(w.value)),
                  w.text);
      }
      if (loops) close_members(block->at);
    }
    out_.close();
  }

  void emit_fold(int32_t number) {
    const plan::Reduction& r = plan_.reduction(number);
    std::string how = r.partials == per::strip
                          ? fmt::format("_strips(ctx, {}", plan_.base_of(per::strip))
                          : fmt::format("(ctx->parts + {}", r.partition);
    out_.line(
        fmt::format("{}{}, ctx->slots[{}], ctx->results[{}]);", reducer(r), how, number, number),
        plan_[r.value].text);
  }

  void emit_arrangements() {
    out_.open("for (uint32_t tensor_index = 0; tensor_index < ctx->tensor_count; ++tensor_index)");
    out_.line("const sf_tensor* const tensor = ctx->tensors + tensor_index;");
    out_.line("if ((tensor->flags & SF_PRESENT) == 0 || tensor->size == 0) continue;");
    out_.line(fmt::format("void* const* const own = ctx->pointers + {} * (uint64_t)tensor_index;",
                          plan_.buffer_count));
    for (const plan::Arrangement& a : plan_.arrangements) {
      if (int bits = a.order.transposed ? a.bits_of_elements() : 0) {
        out_.line(fmt::format("sf_transpose(tensor, own[{}], own[{}], {});", a.from, a.to, bits),
                  a.text);
        continue;
      }
      out_.line(fmt::format("sf_arrange(tensor, own[{}], own[{}], {}, {}, {}, {}, {});", a.from,
                            a.to, size_of(a.dtype), a.at.rows, a.at.columns, a.order.transposed,
                            a.order.swizzled),
                a.text);
    }
    out_.close();
  }

  void emit_run() {
    open_function("sf_run");
    for (size_t p = 0; p < plan_.phases.size(); ++p) {
      const plan::Phase& phase = plan_.phases[p];
      if (phase.has_work()) {
        out_.line(fmt::format("sf_phase_{}(ctx, 0, ctx->chunk_count);", p), phase.name);
      }
      for (const plan::Work& w : phase.work) {
        if (w.rollup != kNone) out_.line(fmt::format("sf_rollup_{}_{}(ctx);", p, w.rollup));
        for (int32_t r : w.folds) emit_fold(r);
        if (w.arranges) emit_arrangements();
      }
    }
    out_.line("sf_finish(ctx);");
    out_.close();
  }

  const KernelPlan& plan_;
  Text out_;
};

}  // namespace

std::string emit_c(const KernelPlan& plan) {
  std::string head = fmt::format(
      "// step @{}, form {}: generated, self-contained C11.\n"
      "// Call it with rounding to nearest and subnormals kept (fesetenv(FE_DFL_ENV)): it leaves "
      "the mode as it is.\n"
      "enum {{ SF_LANES = {}, SF_PIECE = {}, SF_STRIP = {}, SF_COLUMNS = {} }};\n",
      plan.name, name(plan.form), kLanes, kPieceElements, kStripRows, abi::kColumnsOfTensors);
  std::string functions;
  for (const plan::Expansion* e : plan::needed_expansions(plan, is_native))
    functions += function(*e);
  std::string prelude(embedded_c_prelude());
  if (!plan.arrangements.empty()) prelude += embedded_c_prelude_arrange();
  return head + prelude + "\n" + functions + Emitter(plan).run();
}

}  // namespace stepfuse
