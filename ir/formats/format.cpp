// Formats: their texts, and the rewriting of a step that keeps a buffer in one. Knows ir and fmt.
//
// A format is a pair of steps: with_format() inserts `decode` after the loads of a buffer and `encode` before its
// stores, and replaces the buffer by its parts. Later stages see only ops and buffers. If small tensors are exempt,
// buffer and parts are declared for sizes (`below`, `from`), and a `select` by element_count chooses.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/format.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>

#include "ir/formats/format_text.hpp"
#include "ir/formula/built_in.hpp"
#include "ir/program/verifier.hpp"
#include "ir/text/near_names.hpp"
#include "ir/text/words.hpp"

namespace stepfuse {
namespace {

[[noreturn]] void fail(const Format& f, const std::string& what) {
  throw Error(ErrorKind::verify, fmt::format("format {}: {}", f.name, what));
}

// Returns the end of the text's first step.
size_t end_of_step(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//") i = std::min(text.find('\n', i), text.size() - 1);
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i + 1;
  }
  return text.size();
}

// Returns the buffer that stands for the value itself.
void check_value(const Format& f, const Program& p, Access access) {
  int slot = p.find_buffer("x");
  if (slot < 0) fail(f, fmt::format("@{} has no buffer @x, which is the value", p.name));
  const Buffer& x = p.buffers[static_cast<size_t>(slot)];
  if (x.dtypes != DTypeSet(DType::f32) || x.at != per::element || x.access != access) {
    fail(f, fmt::format("buffer @x of @{} must be f32 {}", p.name, name(access)));
  }
}

std::vector<Buffer> parts_of(const Program& p) {
  std::vector<Buffer> parts;
  for (const Buffer& b : p.buffers) {
    if (b.name != "x") parts.push_back(b);
  }
  return parts;
}

// @encode alone draws random numbers, reduces beyond blocks and writes states.
void check_function(const Format& f, const Program& p, bool encodes) {
  for (const Arg& a : p.args) {
    bool is_known = (a.name == "seed" && a.type == Type{DType::i64, per::step}) ||
                    (a.name == "count" && a.type == Type{DType::i64, per::tensor});
    if (encodes && is_known) continue;
    fail(f, fmt::format("@{} has arg %{}; only @encode has args, and only %seed : i64 and %count : "
                        "<i64>, from which random numbers follow",
                        p.name, a.name));
  }
  for (const Inst& inst : p.insts) {
    bool is_value = inst.op == Op::constant || inst.op == Op::load || inst.op == Op::arg ||
                    inst.op == Op::element_index || inst.op == Op::read;
    bool is_foreign = (is_source(inst.op) && !is_value) || inst.op == Op::stage;
    bool is_wide = is_folded(inst) || inst.op == Op::random || inst.op == Op::write;
    if (is_foreign || (is_wide && !encodes)) {
      fail(f, fmt::format("@{} has {}: {}", p.name, info(inst.op).name,
                          encodes ? "it is a function of the values, states and random numbers"
                                  : "it is a function of the value, its block and states"));
    }
    if (inst.predicate != kNoValue) {
      fail(f, fmt::format("@{} has a condition on {}; the step's own condition is put there",
                          p.name, info(inst.op).name));
    }
  }
  Access access = encodes ? Access::out : Access::in;
  for (const Buffer& part : parts_of(p)) {
    if (part.access == access && part.dtypes.size() == 1 && part.init == Buffer::Init::none &&
        part.is_of_all()) {
      continue;
    }
    fail(f, fmt::format("part @{} of @{} must have one type, be {}, and exist for every tensor",
                        part.name, p.name, name(access)));
  }
}

size_t count_stores(const Program& p) {
  return static_cast<size_t>(std::count_if(p.insts.begin(), p.insts.end(),
                                           [](const Inst& i) { return i.op == Op::store; }));
}

void check_pair(const Format& f) {
  check_value(f, f.encode, Access::in);
  check_value(f, f.decode, Access::out);
  check_function(f, f.encode, true);
  check_function(f, f.decode, false);
  std::vector<Buffer> made = parts_of(f.encode);
  std::vector<Buffer> used = parts_of(f.decode);
  for (Buffer& b : used) b.access = Access::out;
  if (made != used || made.empty()) {
    fail(f, "@encode and @decode must have the same parts, in the same order");
  }
  for (const State& s : f.decode.states) {
    int slot = f.encode.find_state(s.name);
    if (slot < 0 || f.encode.states[static_cast<size_t>(slot)] != s) {
      fail(f, fmt::format("@decode has state @{}, which @encode must declare alike", s.name));
    }
  }
  if (count_stores(f.encode) != made.size()) fail(f, "@encode must store every part once");
  if (count_stores(f.decode) != 1) fail(f, "@decode must store @x once");
}

// How the parts are named, which tensors have them, and what random numbers follow from.
struct Wanted {
  bool lower_bits = false;  // named as by with_lower_bits()
  uint64_t from = 0;        // smaller tensors keep the buffer itself
  RandomInputs random = {};
};

// Keeps one buffer of a program in a format.
class Rewriting {
 public:
  Rewriting(const Program& from, std::string_view buffer, const Format& format, Wanted wanted)
      : from_(from), format_(format), wanted_(wanted), slot_(from.find_buffer(buffer)) {
    check(buffer);
    names_.insert(from.names.begin(), from.names.end());
  }

  Program run() {
    declare();
    for (ValueId v = 0; v < from_.size(); ++v) rewrite(v);
    verify(to_);
    return std::move(to_);
  }

 private:
  const Buffer& buffer() const { return from_.buffers[static_cast<size_t>(slot_)]; }
  [[noreturn]] void refuse(std::string_view buffer, std::string_view why) const {
    throw Error(ErrorKind::usage, fmt::format("buffer @{} of step @{} cannot be stored as {}: {}",
                                              buffer, from_.name, format_.name, why));
  }
  void check(std::string_view name) const {
    if (slot_ < 0) refuse(name, "the step has no buffer of that name");
    if (!buffer().dtypes.contains(DType::f32) || buffer().at != per::element) {
      refuse(name, "a format needs a per-element buffer that may be f32");
    }
    if (buffer().init == Buffer::Init::copy)
      refuse(name, "it starts as a copy of a different buffer");
    for (const Buffer& b : from_.buffers) {
      if (!wanted_.lower_bits && b.init == Buffer::Init::copy && b.init_from == slot_) {
        refuse(name, fmt::format("@{} starts as a copy of it", b.name));
      }
    }
    if (!format_.encode.args.empty() &&
        (wanted_.random.seed == kNoValue || wanted_.random.count == kNoValue)) {
      refuse(name, "it draws random numbers, and no seed and count are given");
    }
    for (const Buffer& part : parts_of(format_.encode)) {
      if (ordered_rows(part.at) == 0 || buffer().access != Access::inout) continue;
      refuse(name,
             fmt::format(
                 "part @{} has one value for {} elements, which one chunk would store while "
                 "another still decodes with it; keep this format for a copy that the step only "
                 "writes, or make the part a state",
                 part.name, tile_text(part.at)));
    }
    for (const Inst& inst : from_.insts) {
      bool stores = inst.op == Op::store && inst.slot == slot_ && inst.predicate != kNoValue;
      if (stores && is_tile(from_[inst.predicate].type.at)) {
        refuse(name, "each element has its own condition for being stored");
      }
    }
  }

  // Declares the parts in the buffer's position, or behind the buffer if small tensors keep it.
  void declare() {
    to_.name = from_.name;
    to_.states = from_.states;
    to_.tables = from_.tables;
    to_.state_locs = from_.state_locs;
    to_.args = from_.args;
    to_.stages = from_.stages;
    declare_states();
    for (size_t b = 0; b < from_.buffers.size(); ++b) {
      moved_.push_back(static_cast<int32_t>(to_.buffers.size()));
      Buffer kept = from_.buffers[b];
      if (static_cast<int32_t>(b) != slot_) {
        if (kept.init == Buffer::Init::copy) {
          kept.init_from = moved_[static_cast<size_t>(kept.init_from)];
        }
        if (kept.order.any()) kept.arranges = moved_[static_cast<size_t>(kept.arranges)];
        to_.buffers.push_back(kept);
        continue;
      }
      if (wanted_.from > kept.from) keep_small(kept);
      for (const Buffer& part : parts_of(format_.encode)) {
        bool is_rest = wanted_.lower_bits && !parts_.empty() && kept.access != Access::out;
        parts_[part.name] = static_cast<int32_t>(to_.buffers.size());
        to_.buffers.push_back({.name = part_name(part.name),
                               .dtypes = part.dtypes,
                               .access = kept.access,
                               .init = is_rest ? Buffer::Init::zero : kept.init,
                               .at = part.at,
                               .from = std::max(kept.from, wanted_.from),
                               .below = kept.below});
      }
    }
  }
  void declare_states() {
    for (State state : format_.encode.states) {
      states_[state.name] = static_cast<int32_t>(to_.states.size());
      state.name = part_name(state.name);
      to_.states.push_back(std::move(state));
      if (!to_.state_locs.empty()) to_.state_locs.emplace_back();
    }
  }
  std::string part_name(const std::string& part) const {
    return wanted_.lower_bits ? part : fmt::format("{}.{}.{}", buffer().name, format_.name, part);
  }
  void keep_small(Buffer kept) {
    kept.dtypes = DType::f32;
    kept.below = std::min(kept.below, wanted_.from);
    small_ = static_cast<int32_t>(to_.buffers.size());
    to_.buffers.push_back(std::move(kept));
  }

  ValueId append(Inst inst, std::string name, SourceLoc loc) {
    to_.insts.push_back(inst);
    to_.names.push_back(std::move(name));
    to_.locs.push_back(loc);
    return to_.size() - 1;
  }
  std::string fresh(std::string_view name) {
    std::string base = fmt::format("{}.{}", buffer().name, name);
    std::string unique = base;
    for (int n = 1; !names_.insert(unique).second; ++n) unique = fmt::format("{}.{}", base, n);
    return unique;
  }

  void rewrite(ValueId v) {
    Inst inst = from_[v];
    SourceLoc loc = from_.locs[static_cast<size_t>(v)];
    for (int i = 0; i < inst.arity(); ++i) {
      ValueId& operand = inst.operands[static_cast<size_t>(i)];
      operand = map_[operand];
    }
    if (inst.predicate != kNoValue) inst.predicate = map_[inst.predicate];
    if (inst.type.dtype == DType::bound) {
      if (inst.type.buffer == slot_) {
        inst.type.dtype = DType::f32;
        inst.type.buffer = -1;
      } else {
        inst.type.buffer = moved_[static_cast<size_t>(inst.type.buffer)];
      }
    }
    bool memory = inst.op == Op::load || inst.op == Op::store;
    if (memory && inst.slot == slot_) {
      map_[v] = inst.op == Op::load ? decode(inst, loc) : encode(inst, loc);
      return;
    }
    if (memory) inst.slot = moved_[static_cast<size_t>(inst.slot)];
    map_[v] = append(inst, from_.names[static_cast<size_t>(v)], loc);
  }

  ValueId decode(Inst load, SourceLoc loc) {
    ValueId decoded = inline_step(format_.decode, kNoValue, kNoValue, loc);
    if (small_ < 0) return decoded;
    load.slot = small_;
    ValueId itself = append(load, fresh("itself"), loc);
    if (is_small_ == kNoValue) ask_size(loc);
    return append({.op = Op::select, .type = load.type, .operands = {is_small_, itself, decoded}},
                  fresh("either"), loc);
  }
  // Asks whether the tensor keeps the buffer itself.
  void ask_size(SourceLoc loc) {
    Type count{DType::i64, per::tensor};
    ValueId size = append({.op = Op::element_count, .type = count}, fresh("elements"), loc);
    ValueId from = append({.op = Op::constant,
                           .type = {DType::i64, per::step},
                           .literal = Bits::of(static_cast<int64_t>(wanted_.from))},
                          fresh("from"), loc);
    is_small_ = append(
        {.op = Op::lt, .type = {DType::boolean, per::tensor}, .operands = {size, from, kNoValue}},
        fresh("is_small"), loc);
  }

  ValueId encode(Inst store, SourceLoc loc) {
    if (small_ >= 0) {
      store.slot = small_;
      append(store, "", loc);
    }
    ValueId x = store.operands[0];
    const Type& type = to_[x].type;
    if (type.at != per::element) x = spread(x, loc);
    return inline_step(format_.encode, x, store.predicate, loc);
  }
  // A small tensor's states stay as they are.
  ValueId unless_small(ValueId predicate, SourceLoc loc) {
    if (small_ < 0) return predicate;
    if (is_small_ == kNoValue) ask_size(loc);
    Type flag{DType::boolean, per::tensor};
    ValueId is_large =
        append({.op = Op::logical_not, .type = flag, .operands = {is_small_, kNoValue, kNoValue}},
               fresh("is_large"), loc);
    if (predicate == kNoValue) return is_large;
    return append({.op = Op::bit_and, .type = flag, .operands = {predicate, is_large, kNoValue}},
                  fresh("is_written"), loc);
  }
  // Gives every element the value that they share.
  ValueId spread(ValueId x, SourceLoc loc) {
    Type flag{DType::boolean, per::element};
    ValueId place =
        append({.op = Op::element_index, .type = {DType::i32, per::element}}, fresh("place"), loc);
    ValueId all = append({.op = Op::eq, .type = flag, .operands = {place, place, kNoValue}},
                         fresh("all"), loc);
    return append({.op = Op::select, .type = {DType::f32, per::element}, .operands = {all, x, x}},
                  fresh("spread"), loc);
  }

  // Returns the index of a format's table among the step's tables, which contain each table once.
  int32_t table(const Table& wanted) {
    Table t = wanted;
    auto named = [&] {
      return std::find_if(to_.tables.begin(), to_.tables.end(),
                          [&](const Table& known) { return known.name == t.name; });
    };
    for (int n = 1; named() != to_.tables.end() && named()->values != t.values; ++n) {
      t.name = fmt::format("{}.{}", wanted.name, n);
    }
    auto place = static_cast<int32_t>(named() - to_.tables.begin());
    if (named() == to_.tables.end()) to_.tables.push_back(std::move(t));
    return place;
  }

  // Inserts the code of @encode, with `x` for @x, or of @decode; returns the value that is stored last.
  ValueId inline_step(const Program& code, ValueId x, ValueId predicate, SourceLoc loc) {
    std::map<ValueId, ValueId> own;
    ValueId stored = kNoValue;
    for (ValueId v = 0; v < code.size(); ++v) {
      Inst inst = code[v];
      for (int i = 0; i < inst.arity(); ++i) {
        ValueId& operand = inst.operands[static_cast<size_t>(i)];
        operand = own[operand];
      }
      bool memory = inst.op == Op::load || inst.op == Op::store;
      std::string at = memory ? code.buffers[static_cast<size_t>(inst.slot)].name : "";
      if (inst.op == Op::arg) {
        own[v] = map_.at(code.args[static_cast<size_t>(inst.slot)].name == "seed"
                             ? wanted_.random.seed
                             : wanted_.random.count);
        continue;
      }
      if (memory && at == "x") {
        if (inst.op == Op::load) own[v] = x;
        if (inst.op == Op::store) stored = inst.operands[0];
        continue;
      }
      if (memory) inst.slot = parts_.at(at);
      if (inst.op == Op::read || inst.op == Op::write) {
        inst.slot = states_.at(code.states[static_cast<size_t>(inst.slot)].name);
      }
      if (reads_table(inst.op)) inst.slot = table(code.tables[static_cast<size_t>(inst.slot)]);
      if (inst.op == Op::store) inst.predicate = predicate;
      if (inst.op == Op::write) inst.predicate = unless_small(predicate, loc);
      own[v] =
          append(inst, is_effect(inst.op) ? "" : fresh(code.names[static_cast<size_t>(v)]), loc);
    }
    return stored;
  }

  const Program& from_;
  const Format& format_;
  Wanted wanted_;
  int32_t slot_;
  int32_t small_ = -1;  // the buffer itself, if small tensors keep it
  ValueId is_small_ = kNoValue;
  Program to_;
  std::vector<int32_t> moved_;             // [buffer] its new number
  std::map<std::string, int32_t> parts_;   // by name
  std::map<std::string, int32_t> states_;  // by name
  std::map<ValueId, ValueId> map_;
  std::set<std::string> names_;
};

}  // namespace

Format parse_format(std::string_view given, std::string_view name,
                    std::span<const std::string_view> values) {
  std::string chosen = choose(given, name, values);
  std::string_view text = chosen;
  size_t cut = end_of_step(text);
  std::string rest(text);  // with the line numbers of the whole text
  for (size_t i = 0; i < cut; ++i) {
    if (rest[i] != '\n') rest[i] = ' ';
  }
  Format f{std::string(name), parse(text.substr(0, cut), name), {}};
  f.decode = parse(rest, name, f.encode.tables);
  if (f.encode.name != "encode" || f.decode.name != "decode") {
    fail(f, fmt::format("its steps are @encode and @decode, not @{} and @{}", f.encode.name,
                        f.decode.name));
  }
  check_pair(f);
  return f;
}

namespace {

using formula::Embedded;

// The names of a text's variants, whose types the copied buffer decides if `typed` is false.
void add_variants(std::vector<std::string>& names, const Embedded& e, bool typed, char joint) {
  std::vector<std::string> variants = {std::string(e.name)};
  for (const FormatParameter& p : format_parameters(e.text, e.name)) {
    if (p.is_type && !typed) continue;
    std::vector<std::string> more;
    for (const std::string& variant : variants) {
      more.push_back(variant);
      for (size_t i = 1; i < p.values.size(); ++i) {
        more.push_back(fmt::format("{}{}{}", variant, joint, p.values[i]));
      }
    }
    variants = std::move(more);
  }
  names.insert(names.end(), variants.begin(), variants.end());
}

std::vector<std::string> list_variants(std::span<const Embedded> texts, bool typed, char joint) {
  std::vector<std::string> names;
  for (const Embedded& e : texts) add_variants(names, e, typed, joint);
  return names;
}

// Four formats had names of their own before they became one text.
constexpr std::pair<std::string_view, std::string_view> kOldNames[] = {
    {"mxe4m3", "mx"},
    {"mxe5m2", "mx_f8e5m2"},
    {"mxe4m3_rceil", "mx_rceil"},
    {"mxe5m2_rceil", "mx_f8e5m2_rceil"}};

}  // namespace

std::vector<std::string_view> list_formats() {
  static const auto names = list_variants(formula::embedded_formats(), true, '_');
  return {names.begin(), names.end()};
}

std::vector<std::string_view> list_copy_formats() {
  static const auto names = list_variants(formula::embedded_copies(), false, '-');
  return {names.begin(), names.end()};
}

namespace {

// A built-in text, and the values of its parameters that a format's name has.
struct Found {
  const Embedded* text = nullptr;
  std::vector<std::string_view> values;
};

Found find_text(std::string_view wanted) {
  for (auto list :
       {formula::embedded_formats(), formula::embedded_masters(), formula::embedded_copies()}) {
    for (const Embedded& e : list) {
      std::string_view rest = wanted;
      if (!rest.starts_with(e.name)) continue;
      rest.remove_prefix(e.name.size());
      if (!rest.empty() && rest[0] != '-' && rest[0] != '_') continue;
      return {&e, split(rest.substr(rest.empty() ? 0 : 1), "-_")};
    }
  }
  return {};
}

}  // namespace

Format built_in_format(std::string_view name, std::optional<DType> type) {
  std::string_view wanted = name;
  for (const auto& [old, now] : kOldNames) {
    if (name == old) wanted = now;
  }
  Found found = find_text(wanted);
  if (found.text == nullptr) {
    std::vector<std::string_view> all = list_formats();
    std::vector<std::string> known(all.begin(), all.end());
    throw Error(ErrorKind::usage, fmt::format("there is no format '{}'; there are {}{}", name,
                                              fmt::join(known, ", "), did_you_mean(name, known)));
  }
  if (type) found.values.push_back(stepfuse::name(*type));
  std::string known(name);
  std::replace(known.begin(), known.end(), '-', '_');  // which names of buffers may have
  return parse_format(found.text->text, known, found.values);
}

DTypeSet copy_types(std::string_view name) {
  DTypeSet types;
  const Embedded* text = find_text(name).text;
  check_internal(text != nullptr, "copy_types() takes the names of formats of copies");
  for (const FormatParameter& p : format_parameters(text->text, name)) {
    for (std::string_view value : p.values) {
      if (p.is_type) types = types | *dtype_from_name(value);
    }
  }
  return types;
}

Program with_format(const Program& program, std::string_view buffer, const Format& format,
                    uint64_t from) {
  return Rewriting(program, buffer, format, {.from = from}).run();
}

Program with_lower_bits(const Program& program, std::string_view buffer, const Format& format,
                        RandomInputs random) {
  return Rewriting(program, buffer, format, {.lower_bits = true, .random = random}).run();
}

Program conversion(std::string_view from, std::string_view to) {
  auto type = [](std::string_view form) {
    std::optional<DType> t = dtype_from_name(form);
    return name(t && kFloatStorage.contains(*t) ? *t : DType::f32);
  };
  Program program = parse(fmt::format(R"(step @convert {{
  buffer @from : {0} in
  buffer @to : {1} out
  %stored = load @from : [{0}]
  %x = cast %stored : [f32]
  %kept = cast %x : [{1}]
  store @to, %kept
}})",
                                      type(from), type(to)),
                          "<conversion>");
  for (auto [buffer, form] : {std::pair("from", from), std::pair("to", to)}) {
    if (type(form) != form) program = with_format(program, buffer, built_in_format(form));
  }
  return program;
}

}  // namespace stepfuse
