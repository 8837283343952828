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

#include "ir/formula/built_in.hpp"
#include "ir/program/verifier.hpp"

namespace stepfuse {
namespace {

[[noreturn]] void fail(const Format& f, const std::string& what) {
  throw Error(ErrorKind::verify, fmt::format("format {}: {}", f.name, what));
}

// Where the text's first step ends.
size_t end_of_step(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//") i = std::min(text.find('\n', i), text.size() - 1);
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i + 1;
  }
  return text.size();
}

// The buffer that stands for the value itself.
const Buffer& value_of(const Format& f, const Program& p, Access access) {
  int slot = p.find_buffer("x");
  if (slot < 0) fail(f, fmt::format("@{} has no buffer @x, which is the value", p.name));
  const Buffer& x = p.buffers[static_cast<size_t>(slot)];
  if (x.dtypes != DTypeSet(DType::f32) || x.at != per::element || x.access != access) {
    fail(f, fmt::format("buffer @x of @{} is of f32, {}", p.name, name(access)));
  }
  return x;
}

std::vector<Buffer> parts_of(const Program& p) {
  std::vector<Buffer> parts;
  for (const Buffer& b : p.buffers) {
    if (b.name != "x") parts.push_back(b);
  }
  return parts;
}

// What holds of a function of one place.
void check_function(const Format& f, const Program& p, Access of_parts) {
  if (!p.args.empty() || !p.states.empty() || !p.stages.empty()) {
    fail(f,
         fmt::format("@{} has no args, states or stages: it is a function of the value", p.name));
  }
  for (const Inst& inst : p.insts) {
    bool uniform = is_source(inst.op) && inst.op != Op::constant && inst.op != Op::load &&
                   inst.op != Op::element_index;
    if (is_folded(inst) || uniform || inst.op == Op::random) {
      fail(f, fmt::format("@{} has {}: it is a function of the value and its block", p.name,
                          info(inst.op).name));
    }
    if (inst.predicate != kNoValue) fail(f, fmt::format("@{} stores without conditions", p.name));
  }
  for (const Buffer& part : parts_of(p)) {
    if (part.access == of_parts && part.dtypes.size() == 1 && part.init == Buffer::Init::none &&
        part.is_of_all()) {
      continue;
    }
    fail(f, fmt::format("part @{} of @{} is of one type, {}, of every tensor", part.name, p.name,
                        name(of_parts)));
  }
}

void check_pair(const Format& f) {
  value_of(f, f.encode, Access::in);
  value_of(f, f.decode, Access::out);
  check_function(f, f.encode, Access::out);
  check_function(f, f.decode, Access::in);
  std::vector<Buffer> made = parts_of(f.encode);
  std::vector<Buffer> used = parts_of(f.decode);
  for (Buffer& b : used) b.access = Access::out;
  if (made != used || made.empty()) {
    fail(f, "@encode and @decode have the same parts, in the same order");
  }
  auto stores = [&](const Program& p) {
    return static_cast<size_t>(std::count_if(p.insts.begin(), p.insts.end(),
                                             [](const Inst& i) { return i.op == Op::store; }));
  };
  if (stores(f.encode) != made.size()) fail(f, "@encode stores every part");
  if (stores(f.decode) != 1) fail(f, "@decode stores @x");
}

// What a buffer kept in a format is called, and whose it is.
struct Parts {
  bool lower_bits = false;  // as with_lower_bits() names them
  uint64_t from = 0;        // smaller tensors keep the buffer itself
};

// Keeps one buffer of a program in a format.
class Rewriting {
 public:
  Rewriting(const Program& from, std::string_view buffer, const Format& format, Parts parts)
      : from_(from), format_(format), wanted_(parts), slot_(from.find_buffer(buffer)) {
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
    throw Error(ErrorKind::usage, fmt::format("buffer @{} of step @{} cannot be kept as {}: {}",
                                              buffer, from_.name, format_.name, why));
  }
  void check(std::string_view name) const {
    if (slot_ < 0) refuse(name, "the step has none of that name");
    if (!buffer().dtypes.contains(DType::f32) || buffer().at != per::element) {
      refuse(name, "a format is of a buffer that may be f32");
    }
    if (buffer().init == Buffer::Init::copy) refuse(name, "it begins as a copy of another");
    for (const Buffer& b : from_.buffers) {
      if (!wanted_.lower_bits && b.init == Buffer::Init::copy && b.init_from == slot_) {
        refuse(name, fmt::format("@{} begins as its copy", b.name));
      }
    }
    for (const Inst& inst : from_.insts) {
      bool stores = inst.op == Op::store && inst.slot == slot_ && inst.predicate != kNoValue;
      if (stores && is_tile(from_[inst.predicate].type.at)) {
        refuse(name, "each element has its own condition for being stored");
      }
    }
  }

  // The parts stand where the buffer stood, behind itself where small tensors keep it.
  void declare() {
    to_.name = from_.name;
    to_.states = from_.states;
    to_.tables = from_.tables;
    to_.state_locs = from_.state_locs;
    to_.args = from_.args;
    to_.stages = from_.stages;
    for (size_t b = 0; b < from_.buffers.size(); ++b) {
      moved_.push_back(static_cast<int32_t>(to_.buffers.size()));
      Buffer kept = from_.buffers[b];
      if (static_cast<int32_t>(b) != slot_) {
        if (kept.init == Buffer::Init::copy) {
          kept.init_from = moved_[static_cast<size_t>(kept.init_from)];
        }
        to_.buffers.push_back(kept);
        continue;
      }
      if (wanted_.from > kept.from) keep_small(kept);
      for (const Buffer& part : parts_of(format_.encode)) {
        bool is_rest = wanted_.lower_bits && !parts_.empty() && kept.access != Access::out;
        parts_[part.name] = static_cast<int32_t>(to_.buffers.size());
        to_.buffers.push_back({.name = wanted_.lower_bits ? part.name
                                                          : fmt::format("{}.{}.{}", kept.name,
                                                                        format_.name, part.name),
                               .dtypes = part.dtypes,
                               .access = kept.access,
                               .init = is_rest ? Buffer::Init::zero : kept.init,
                               .at = part.at,
                               .from = std::max(kept.from, wanted_.from),
                               .below = kept.below});
      }
    }
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
  // Whether the tensor keeps the buffer itself.
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
  // To every element the value that they share.
  ValueId spread(ValueId x, SourceLoc loc) {
    Type flag{DType::boolean, per::element};
    ValueId place =
        append({.op = Op::element_index, .type = {DType::i32, per::element}}, fresh("place"), loc);
    ValueId all = append({.op = Op::eq, .type = flag, .operands = {place, place, kNoValue}},
                         fresh("all"), loc);
    return append({.op = Op::select, .type = {DType::f32, per::element}, .operands = {all, x, x}},
                  fresh("spread"), loc);
  }

  // The number of a format's table among the step's, which has each once.
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

  // The code of @encode with `x` for @x, or of @decode; returns the value that is stored last.
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
      if (memory && at == "x") {
        if (inst.op == Op::load) own[v] = x;
        if (inst.op == Op::store) stored = inst.operands[0];
        continue;
      }
      if (memory) inst.slot = parts_.at(at);
      if (reads_table(inst.op)) inst.slot = table(code.tables[static_cast<size_t>(inst.slot)]);
      if (inst.op == Op::store) inst.predicate = predicate;
      own[v] =
          append(inst, is_effect(inst.op) ? "" : fresh(code.names[static_cast<size_t>(v)]), loc);
    }
    return stored;
  }

  const Program& from_;
  const Format& format_;
  Parts wanted_;
  int32_t slot_;
  int32_t small_ = -1;  // the buffer itself, where small tensors keep it
  ValueId is_small_ = kNoValue;
  Program to_;
  std::vector<int32_t> moved_;            // [buffer] its new number
  std::map<std::string, int32_t> parts_;  // by name
  std::map<ValueId, ValueId> map_;
  std::set<std::string> names_;
};

}  // namespace

Format parse_format(std::string_view text, std::string_view name) {
  size_t cut = end_of_step(text);
  std::string rest(text);  // with the lines of the whole
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

std::vector<std::string_view> list_formats() {
  std::vector<std::string_view> names;
  for (const formula::Embedded& e : formula::embedded_formats()) names.push_back(e.name);
  return names;
}

Format built_in_format(std::string_view name) {
  for (auto list :
       {formula::embedded_formats(), formula::embedded_masters(), formula::embedded_copies()}) {
    for (const formula::Embedded& e : list) {
      if (e.name == name) return parse_format(e.text, name);
    }
  }
  throw Error(ErrorKind::usage, fmt::format("there is no format '{}'; there are {}", name,
                                            fmt::join(list_formats(), ", ")));
}

Program with_format(const Program& program, std::string_view buffer, const Format& format,
                    uint64_t from) {
  return Rewriting(program, buffer, format, {.from = from}).run();
}

Program with_lower_bits(const Program& program, std::string_view buffer, const Format& format) {
  return Rewriting(program, buffer, format, {.lower_bits = true}).run();
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
