// Checks the rules that every Program obeys; ir/README.md lists them. Knows ir and fmt.
#include "ir/program/verifier.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include <fmt/format.h>

#include <stepfuse/printer.hpp>

#include "ir/program/type_rules.hpp"

namespace stepfuse {
namespace {

constexpr size_t kMaxDiagnostics = 20;  // the search stops at this number
constexpr size_t kMaxMessage = 400;     // names in a malformed text may be megabytes long

// Returns the number of elements that share a value.
int32_t shared_by(Granularity g) { return g.rows * g.columns; }
bool is_scalar_storage(DType t) { return is_number(t) || t == DType::boolean; }

class Verifier {
 public:
  explicit Verifier(const Program& p) : p_(p) {}

  std::vector<Diagnostic> run() {
    if (p_.names.size() != p_.insts.size() || p_.locs.size() != p_.insts.size()) {
      report(12, "the program's names and locations are not parallel to its instructions");
      return std::move(found_);
    }
    if (!has_known_enums(p_)) {
      report(12, "an op, type or access of the program does not exist: build it with Builder");
      return std::move(found_);
    }
    check_declarations();
    check_args();
    for (current_ = 0; current_ < p_.size() && found_.size() < kMaxDiagnostics; ++current_) {
      check_inst(p_[current_]);
    }
    current_ = kNoValue;
    check_reports();
    check_columns();
    if (std::none_of(p_.insts.begin(), p_.insts.end(),
                     [](const Inst& i) { return i.op == Op::store || i.op == Op::write; })) {
      report(17, "the step has no effect: it stores and writes nothing");
    }
    return std::move(found_);
  }

 private:
  template <class... Args>
  void report(int rule, fmt::format_string<Args...> format, Args&&... args) {
    report_part(kWhole, rule, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void report_part(int part, int rule, fmt::format_string<Args...> format, Args&&... args) {
    if (found_.size() >= kMaxDiagnostics) return;
    SourceLoc loc = declared_;
    if (current_ != kNoValue) loc = p_.locs[static_cast<size_t>(current_)];
    std::string message = fmt::format(format, std::forward<Args>(args)...);
    if (current_ != kNoValue && loc.line == 0) {
      message = fmt::format("value {} ({}): {}", current_, info(p_[current_].op).name, message);
    }
    if (message.size() > kMaxMessage) message = message.substr(0, kMaxMessage) + " …";
    found_.push_back({rule, loc, message, current_, current_ == kNoValue ? kWhole : part});
  }

  static SourceLoc loc_of(const std::vector<SourceLoc>& locs, size_t i) {
    return i < locs.size() ? locs[i] : SourceLoc{};
  }

  std::string text(Type t) const { return type_text(p_, t); }

  // --- declarations

  void check_name(std::set<std::string>& seen, const std::string& n, std::string_view kind) {
    auto bad = [](char c) {
      return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '.');
    };
    if (n.empty() || std::any_of(n.begin(), n.end(), bad)) {
      report(12, "'{}' is not a name for a {}: use letters, digits, '_' and '.'", n.substr(0, 40),
             kind);
    } else if (!seen.insert(n).second) {
      report(12, "two {}s have the name '{}'", kind, n);
    }
  }

  void check_declarations() {
    std::set<std::string> buffers;
    std::set<std::string> states;
    std::set<std::string> steps;
    check_name(steps, p_.name, "step");
    for (size_t i = 0; i < p_.buffers.size(); ++i) {
      declared_ = loc_of(p_.buffer_locs, i);
      check_name(buffers, p_.buffers[i].name, "buffer");
      check_buffer_types(p_.buffers[i]);
      check_buffer_init(i);
      if (p_.buffers[i].order.any() || p_.buffers[i].arranges != -1) check_order(i);
    }
    for (size_t i = 0; i < p_.states.size(); ++i) {
      const State& s = p_.states[i];
      declared_ = loc_of(p_.state_locs, i);
      check_name(states, s.name, "state");
      bool wide = s.type.dtype == DType::f64 || s.type.dtype == DType::i64;
      if (!is_scalar_storage(s.type.dtype) || is_tile(s.type.at) ||
          (wide && s.type.at == per::column)) {
        report(14,
               "state @{} has type {}: states are f32 f64 i32 i64 bool, one per step, {{group}}, "
               "<tensor>, row or column, as <f32/row>; per-column states are never f64 or i64",
               s.name, text(s.type));
      }
      if (s.report && splits_tensor(s.type.at)) {
        report(14, "report @{} is per {}, which gives too many values: reduce it", s.name,
               info(s.type.at).name);
      }
      if (s.shared && s.type.at != per::step) {
        report(14, "shared state @{} must be per step, as in f32", s.name);
      }
    }
    check_tables();
    declared_ = {};
    for (const std::string& s : p_.stages) {
      std::set<std::string> any;
      check_name(any, s, "stage");
    }
  }

  void check_buffer_types(const Buffer& b) {
    bool floats = !b.dtypes.empty() && (b.dtypes & kFloatStorage) == b.dtypes;
    bool single = b.dtypes.size() == 1 && (b.dtypes & kSingleStorage) == b.dtypes;
    if (!floats && !single) {
      report(13,
             "buffer @{} lists a storage type it cannot have: {} in any combination, or one of {} "
             "alone",
             b.name, names(kFloatStorage, ", "), names(kSingleStorage, ", "));
    }
    if (!is_legal(b.at) || !is_tile(b.at)) {
      report(13, "buffer @{} has one value per {} rows of {} columns: use one per element, or {}",
             b.name, b.at.rows, b.at.columns, tile_texts());
    }
    if (ordered_rows(b.at) > 0 && (b.access == Access::inout || b.init != Buffer::Init::none)) {
      report(13,
             "buffer @{} has a value for each square: row by row it would be loaded after it was "
             "stored; declare it in or out, and without an initial value",
             b.name);
    }
    if (b.is_of_all()) return;
    if (b.from >= b.below)
      report(13, "no tensor has buffer @{}: raise 'below' above 'from'", b.name);
    if (b.dtypes.size() != 1) {
      report(13, "buffer @{} is limited to some sizes of tensors; give it one storage type",
             b.name);
    }
  }

  void check_buffer_init(size_t slot) {
    const Buffer& b = p_.buffers[slot];
    if (b.access == Access::in && b.init == Buffer::Init::zero) {
      report(13,
             "@{} is an `in` buffer, whose contents are given; leave out `= 0` or declare it inout",
             b.name);
    }
    if (b.init != Buffer::Init::copy) return;
    if (b.init_from < 0 || static_cast<size_t>(b.init_from) >= slot) {
      report(13, "buffer @{} is initialised from a buffer that is not declared before it", b.name);
      return;
    }
    const Buffer& from = p_.buffers[static_cast<size_t>(b.init_from)];
    if (from.from > b.from || from.below < b.below) {
      report(13, "@{} is initialised from @{}, which not all of its tensors have", b.name,
             from.name);
    }
    if (from.at != b.at || !((from.dtypes | b.dtypes) & kNarrowIntegers).empty()) {
      report(13, "@{} is initialised from @{}; both must have floats of the same granularity",
             b.name, from.name);
    }
  }

  // Checks a buffer that has another one's values in a different order.
  void check_order(size_t slot) {
    const Buffer& b = p_.buffers[slot];
    if (!b.order.any() || b.arranges < 0 || static_cast<size_t>(b.arranges) >= slot) {
      report(20, "buffer @{} has the values of a buffer that is not declared before it", b.name);
      return;
    }
    const Buffer& from = p_.buffers[static_cast<size_t>(b.arranges)];
    if (b.access != Access::out || b.init != Buffer::Init::none) {
      report(20, "@{} has the values of @{}: declare it out, and without an initial value", b.name,
             from.name);
    }
    if (from.dtypes != b.dtypes || from.at != b.at || b.dtypes.size() != 1) {
      report(20, "@{} has the values of @{}: both must have one and the same type", b.name,
             from.name);
      return;
    }
    if (!from.is_of_all() || !b.is_of_all()) {
      report(20, "@{} has the values of @{}: leave out `from` and `below`", b.name, from.name);
    }
    auto store = std::find_if(p_.insts.begin(), p_.insts.end(), [&](const Inst& inst) {
      return inst.op == Op::store && inst.slot == b.arranges;
    });
    if (from.order.any() || store == p_.insts.end()) {
      report(20, "@{} has the values of @{}, which the step does not store", b.name, from.name);
      return;
    }
    bool fills_tiles = b.at.rows == 1 && b.at.columns > 1 && b.at.columns <= kLargestSwizzled;
    if (b.order.swizzled && !(fills_tiles && size_of(b.dtypes.first()) == 1)) {
      report(20, "@{} is swizzled: it must have a value of one byte per {} to {} elements", b.name,
             kTiles[0].columns, kLargestSwizzled);
    }
    if (!b.order.transposed || !(b.at.rows == 1 && b.at.columns > 1)) return;
    if (packs_codes(b.at, b.dtypes.only())) return;
    ValueId v = store->operands[0];
    bool fits = v >= 0 && v < p_.size() && b.at.columns <= kArrangedTile.columns &&
                broadcasts(p_[v].type.at, per::square(b.at.columns));
    if (!fits) {
      report(
          20,
          "@{} is transposed, and @{} has values for {} elements of a row: they must be those of "
          "squares of {}",
          b.name, from.name, b.at.columns, tile_text(per::square(b.at.columns)));
    }
  }

  void check_tables() {
    std::set<std::string> tables;
    for (size_t i = 0; i < p_.tables.size(); ++i) {
      const auto& [name, values] = p_.tables[i];
      declared_ = loc_of(p_.table_locs, i);
      check_name(tables, name, "table");
      bool finite = std::all_of(values.begin(), values.end(), [](float v) { return v - v == 0; });
      bool rising =
          std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
      if (values.size() < 2 || values.size() > kLargestTable || !finite || !rising) {
        report(18,
               "table @{} has {} values: it takes 2 to {}, finite and each above the one before",
               name, values.size(), kLargestTable);
      }
    }
  }

  void check_args() {
    for (size_t i = 0; i < p_.args.size(); ++i) {
      const Arg& a = p_.args[i];
      bool placed = i < p_.insts.size() && p_.insts[i].op == Op::arg &&
                    p_.insts[i].slot == static_cast<int32_t>(i) && p_.insts[i].type == a.type;
      if (!placed) {
        for (ValueId v = 0; v < p_.size(); ++v) {
          if (p_[v].op == Op::arg && p_[v].slot == static_cast<int32_t>(i)) current_ = v;
        }
        report(15, "arg %{} must stand before every other value", a.name);
        current_ = kNoValue;
        args_placed_ = false;
        return;
      }
      if (!is_scalar_storage(a.type.dtype) || splits_tensor(a.type.at)) {
        current_ = static_cast<ValueId>(i);
        report(15,
               "arg %{} has type {}: args are f32 f64 i32 i64 bool, one per step, {{group}} or "
               "<tensor>",
               a.name, text(a.type));
        current_ = kNoValue;
      }
    }
  }

  // --- instructions

  bool operand_ok(ValueId v) {
    if (v < 0 || v >= current_) {
      report(1, "an operand is not defined before its use");
      return false;
    }
    if (is_effect(p_[v].op)) {
      report(1, "an operand is an effect and has no value");
      return false;
    }
    return true;
  }

  void check_inst(const Inst& inst) {
    size_t errors = found_.size();
    for (int i = 0; i < inst.arity(); ++i) operand_ok(inst.operands[static_cast<size_t>(i)]);
    if (inst.predicate != kNoValue) {
      if (inst.op != Op::store && inst.op != Op::write) report(1, "only effects have a predicate");
      operand_ok(inst.predicate);
    }
    if (found_.size() != errors) return;
    if (!slot_ok(inst)) return;
    if (!is_effect(inst.op)) {
      check_name(value_names_, p_.names[static_cast<size_t>(current_)], "value");
      if (inst.op == Op::arg && args_placed_ && static_cast<size_t>(current_) >= p_.args.size()) {
        report(15, "args must stand before every other value");
      }
    }
    check_rule(inst);
    if (found_.size() == errors && !is_effect(inst.op)) check_granularity(inst);
  }

  bool slot_ok(const Inst& inst) {
    size_t count = 0;
    switch (inst.op) {
      case Op::load:
      case Op::store:
        count = p_.buffers.size();
        break;
      case Op::read:
      case Op::write:
        count = p_.states.size();
        break;
      case Op::lookup:
      case Op::nearest:
        count = p_.tables.size();
        break;
      case Op::arg:
        count = p_.args.size();
        break;
      case Op::stage:
        count = p_.stages.size();
        break;
      default:
        return check_bound_slot(inst);
    }
    if (inst.slot >= 0 && static_cast<size_t>(inst.slot) < count) return check_bound_slot(inst);
    report(1, "it names a declaration that does not exist");
    return false;
  }
  bool check_bound_slot(const Inst& inst) {
    bool bound = inst.type.dtype == DType::bound;
    if (!bound ||
        (inst.type.buffer >= 0 && static_cast<size_t>(inst.type.buffer) < p_.buffers.size())) {
      return true;
    }
    report(1, "its type names a buffer that does not exist");
    return false;
  }

  const Type& operand(const Inst& inst, int i) const {
    return p_[inst.operands[static_cast<size_t>(i)]].type;
  }

  void expect_type(const Inst& inst, Type t) {
    if (!(inst.type == t)) {
      report_part(kType, 2, "the type of {} is {}, not {}", info(inst.op).name, text(t),
                  text(inst.type));
    }
  }

  void check_rule(const Inst& inst) {
    switch (info(inst.op).rule) {
      case TypeRule::constant:
        return check_constant(inst);
      case TypeRule::argument:
        return;
      case TypeRule::read:
        return check_read(inst);
      case TypeRule::load:
        return check_load(inst);
      case TypeRule::present:
        return expect_type(inst, {DType::boolean, per::tensor});
      case TypeRule::tensor_index:
        return expect_type(inst, {DType::i32, per::tensor});
      case TypeRule::element_count:
        return expect_type(inst, {DType::i64, per::tensor});
      case TypeRule::element_index:
        return expect_type(inst, {DType::i32, per::element});
      case TypeRule::store:
        return check_store(inst);
      case TypeRule::write:
        return check_write(inst);
      case TypeRule::stage:
        return;
      default:
        return check_types(p_, inst, [&](int part, int rule, const std::string& message) {
          report_part(part, rule, "{}", message);
        });
    }
  }

  void check_constant(const Inst& inst) {
    if (inst.type.at != per::step || inst.type.dtype == DType::bound) {
      report(16,
             "a constant is per step and has a concrete dtype, as in f32; it broadcasts by itself");
      return;
    }
    size_t bytes = size_of(inst.type.dtype);
    uint64_t limit = inst.type.dtype == DType::boolean ? 1
                     : bytes == 8                      ? ~uint64_t{0}
                                                       : (uint64_t{1} << (8 * bytes)) - 1;
    if (inst.literal.raw > limit) report(16, "the constant's bits do not fit {}", text(inst.type));
  }

  void check_read(const Inst& inst) {
    const State& s = p_.states[static_cast<size_t>(inst.slot)];
    if (s.report) report(11, "@{} is a report: it is written, never read", s.name);
    expect_type(inst, s.type);
  }

  void check_load(const Inst& inst) {
    const Buffer& b = p_.buffers[static_cast<size_t>(inst.slot)];
    if (b.access == Access::out) report(6, "@{} is an `out` buffer and cannot be loaded", b.name);
    expect_type(inst, storage_type(inst.slot, b.at));
  }

  Type storage_type(int32_t slot, Granularity at) const {
    const Buffer& b = p_.buffers[static_cast<size_t>(slot)];
    bool known = b.dtypes.size() == 1;
    return {known ? b.dtypes.only() : DType::bound, at, known ? -1 : slot};
  }

  void check_granularity(const Inst& inst) {
    Type finest;
    for (int i = 0; i < inst.arity(); ++i) {
      finest = i == 0 ? operand(inst, i) : join(finest, operand(inst, i));
    }
    if (!is_legal(inst.type.at)) {
      report(3, "{} rows of {} columns are neither a block nor a square: use {}", inst.type.at.rows,
             inst.type.at.columns, tile_texts());
    }
    if (is_reduction(inst.op)) {
      if (is_tile(finest.at) && finest.at != per::element) {
        report_part(0, 3, "{} of {}: the values of blocks are not reduced further; reduce elements",
                    info(inst.op).name, text(operand(inst, 0)));
      } else if (!broadcasts(inst.type, finest) || broadcasts(finest, inst.type)) {
        report_part(kType, 3, "{} of a per-{} value must have a coarser result, not {}",
                    info(inst.op).name, info(finest.at).name, text(inst.type));
      }
    } else if (inst.op == Op::random) {
      if (inst.type.at != per::element) {
        report(3, "random has a value for each element: [i32], not {}", text(inst.type));
      }
    } else if (inst.arity() > 0 && !(inst.type.of(finest.dtype) == finest.of(finest.dtype))) {
      report_part(kType, 3, "the result of {} is as fine as its finest operand: {}, not {}",
                  info(inst.op).name, text({inst.type.dtype, finest.at, inst.type.buffer}),
                  text(inst.type));
    }
    bool wide = inst.type.dtype == DType::f64 || inst.type.dtype == DType::i64;
    if (is_of_elements(inst.type.at) && wide) {
      report_part(kType, 4,
                  "a per-{} value cannot be {}: compute it per tensor and cast to f32 or i32",
                  info(inst.type.at).name, name(inst.type.dtype));
    }
  }

  void check_predicate(const Inst& inst, Granularity guarded) {
    if (inst.predicate == kNoValue) return;
    Type t = p_[inst.predicate].type;
    if (t.dtype != DType::boolean || !broadcasts(t.at, guarded)) {
      std::string granularity(info(guarded).name);
      if (block_of(guarded) > 1) granularity = fmt::format("block of {}", tile_text(guarded));
      report_part(kPredicate, 10,
                  "the predicate has type {}; it must be bool, and not finer than per {}", text(t),
                  granularity);
    }
  }

  void check_store(const Inst& inst) {
    const Buffer& b = p_.buffers[static_cast<size_t>(inst.slot)];
    if (b.access == Access::in) {
      report(6, "@{} is an `in` buffer and cannot be stored; declare it inout", b.name);
    }
    if (!stored_.insert(inst.slot).second) report(7, "@{} is stored twice", b.name);
    if (b.order.any()) {
      report(20, "@{} gets the values of @{} and cannot be stored", b.name,
             p_.buffers[static_cast<size_t>(std::max(b.arranges, 0))].name);
    }
    Type v = operand(inst, 0);
    Type want = storage_type(inst.slot, v.at);
    if (!(v == want)) {
      report_part(0, 8, "@{} stores {}, not {}; cast first", b.name, text(want), text(v));
    } else if (!broadcasts(v.at, b.at)) {
      report_part(0, 8, "@{} has a value for {} elements; {} is finer: reduce it first", b.name,
                  shared_by(b.at), text(v));
    }
    check_predicate(inst, b.at);
  }

  void check_write(const Inst& inst) {
    const State& s = p_.states[static_cast<size_t>(inst.slot)];
    if (!written_.insert(inst.slot).second) {
      report(s.report ? 11 : 7, "@{} is written twice", s.name);
    }
    Type v = operand(inst, 0);
    if (v.dtype != s.type.dtype || !broadcasts(v.at, s.type.at)) {
      report_part(0, 9, "@{} has type {}; a value of type {} cannot be written to it", s.name,
                  text(s.type), text(v));
    }
    check_predicate(inst, s.type.at);
  }

  // Refuses blocks other than squares in steps with per-column values: a block covers several columns.
  void check_columns() {
    std::vector<Granularity> all = granularities_of(p_);
    if (std::find(all.begin(), all.end(), per::column) == all.end()) return;
    auto is_block = [](Granularity g) { return block_of(g) > 1 && g.rows == 1; };
    if (std::any_of(all.begin(), all.end(), is_block))
      report(19, "a step with per-column values can have no blocks other than squares");
  }

  void check_reports() {
    for (size_t i = 0; i < p_.states.size(); ++i) {
      if (!p_.states[i].report || written_.contains(static_cast<int32_t>(i))) continue;
      declared_ = loc_of(p_.state_locs, i);
      report(11, "@{} is a report that is never written; write it or leave it out",
             p_.states[i].name);
    }
    declared_ = {};
  }

  const Program& p_;
  std::vector<Diagnostic> found_;
  std::set<std::string> value_names_;
  std::set<int32_t> stored_;
  std::set<int32_t> written_;
  ValueId current_ = kNoValue;  // the instruction being checked,
  bool args_placed_ = true;
  SourceLoc declared_;  // or the position of the declaration being checked
};

}  // namespace

std::vector<Diagnostic> find_violations(const Program& program) { return Verifier(program).run(); }

void verify(const Program& program) {
  std::string message;
  for (const Diagnostic& d : find_violations(program)) {
    message += fmt::format("{}{} [V{}]", message.empty() ? "" : "\n", d.message, d.rule);
  }
  if (!message.empty()) throw Error(ErrorKind::verify, "invalid step: " + message);
}

}  // namespace stepfuse
