// Prints a Program as IR text. Knows ir and fmt.
#include <fmt/format.h>

#include <stepfuse/printer.hpp>

namespace stepfuse {
namespace {

std::string init_text(const Program& p, const Buffer& b) {
  switch (b.init) {
    case Buffer::Init::none:
      return "";
    case Buffer::Init::zero:
      return " = 0";
    case Buffer::Init::copy:
      return " = @" + p.buffers[static_cast<size_t>(b.init_from)].name;
  }
  return "";
}

std::string sizes_text(const Buffer& b) {
  std::string from = b.from == 0 ? "" : fmt::format(" from {}", b.from);
  return b.below == Buffer::kAnySize ? from : fmt::format("{} below {}", from, b.below);
}

std::string buffer_types(const Buffer& b) {
  std::string types = names(b.dtypes, "|");
  return b.at == per::element ? types : fmt::format("<{}/{}>", types, tile_text(b.at));
}

std::string value_list(const Program& p, const Inst& inst) {
  std::string out;
  for (int i = 0; i < inst.arity(); ++i) {
    out += fmt::format("{}%{}", i == 0 ? " " : ", ",
                       p.names[static_cast<size_t>(inst.operands[static_cast<size_t>(i)])]);
  }
  return out;
}

std::string slot_text(const Program& p, const Inst& inst) {
  auto slot = static_cast<size_t>(inst.slot);
  switch (inst.op) {
    case Op::load:
    case Op::store:
      return " @" + p.buffers[slot].name;
    case Op::read:
    case Op::write:
      return " @" + p.states[slot].name;
    case Op::lookup:
    case Op::nearest:
      return fmt::format(" @{},", p.tables[slot].name);
    default:
      return "";
  }
}

std::string table_text(const Table& t) {
  std::string out = fmt::format("  table @{} : f32 =", t.name);
  size_t line = 0;  // where the line starts
  for (size_t i = 0; i < t.values.size(); ++i) {
    std::string value = literal_text(Bits::of(t.values[i]), DType::f32);
    if (out.size() - line + value.size() > 96) {
      line = out.size() + 1;
      out += "\n     ";
    }
    out += fmt::format(" {}{}", value, i + 1 < t.values.size() ? "," : "");
  }
  return out + '\n';
}

std::string effect_text(const Program& p, const Inst& inst) {
  std::string out =
      fmt::format("{}{},{}", info(inst.op).name, slot_text(p, inst), value_list(p, inst));
  if (inst.predicate != kNoValue) {
    out += fmt::format(" if %{}", p.names[static_cast<size_t>(inst.predicate)]);
  }
  return out;
}

}  // namespace

std::string tile_text(Granularity g) {
  return g.rows == 1 ? fmt::format("{}", g.columns) : fmt::format("{}x{}", g.rows, g.columns);
}

std::string tile_texts() {
  std::string all;
  for (Granularity tile : kTiles) all += (all.empty() ? "" : ", ") + tile_text(tile);
  return all;
}

std::string granularity_name(Granularity at) {
  if (block_of(at) == 1) return std::string(info(at).name);
  return fmt::format("{} of {}", at.rows == 1 ? "block" : "square", tile_text(at));
}

std::string print_type(const Program& p, Type type) {
  const NamedGranularity& d = info(type.at);
  std::string t = type.dtype == DType::bound
                      ? "@" + p.buffers[static_cast<size_t>(type.buffer)].name
                      : std::string(name(type.dtype));
  if (type.at != per::element && is_tile(type.at))
    return fmt::format("<{}/{}>", t, tile_text(type.at));
  return fmt::format("{}{}{}", d.open, t, d.close);
}

std::string print_inst(const Program& p, ValueId v) {
  const Inst& inst = p[v];
  const std::string& n = p.names[static_cast<size_t>(v)];
  if (inst.op == Op::stage) {
    return fmt::format("stage {}", p.stages[static_cast<size_t>(inst.slot)]);
  }
  if (inst.op == Op::arg) {
    const auto& fallback = p.args[static_cast<size_t>(inst.slot)].fallback;
    std::string given = fallback ? " = " + literal_text(*fallback, inst.type.dtype) : "";
    return fmt::format("arg %{} : {}{}", n, print_type(p, inst.type), given);
  }
  if (is_effect(inst.op)) return effect_text(p, inst);
  std::string literal =
      inst.op == Op::constant ? " " + literal_text(inst.literal, inst.type.dtype) : "";
  return fmt::format("%{} = {}{}{}{} : {}", n, info(inst.op).name, slot_text(p, inst), literal,
                     value_list(p, inst), print_type(p, inst.type));
}

std::string order_text(const Program& p, const Buffer& b) {
  if (!b.order.any()) return "";
  return fmt::format("{}{}of @{}", b.order.transposed ? "transposed " : "",
                     b.order.swizzled ? "swizzled " : "",
                     p.buffers[static_cast<size_t>(b.arranges)].name);
}

std::string print(const Program& p) {
  std::string out = fmt::format("step @{} {{\n", p.name);
  for (const Buffer& b : p.buffers) {
    out +=
        fmt::format("  buffer @{} : {} {}{}{}{}\n", b.name, buffer_types(b), name(b.access),
                    (b.order.any() ? " " : "") + order_text(p, b), init_text(p, b), sizes_text(b));
  }
  for (const State& s : p.states) {
    std::string initial = s.initial == Bits{} ? "" : " = " + literal_text(s.initial, s.type.dtype);
    out += fmt::format("  {} @{} : {}{}{}\n", s.report ? "report" : "state", s.name,
                       print_type(p, s.type), s.shared ? " shared" : "", initial);
  }
  for (const Table& t : p.tables) out += table_text(t);
  for (ValueId v = 0; v < p.size(); ++v) out += "  " + print_inst(p, v) + "\n";
  return out + "}\n";
}

std::string print_canonical(const Program& program) {
  Program p = program;
  for (ValueId v = static_cast<ValueId>(p.args.size()); v < p.size(); ++v) {
    auto i = static_cast<size_t>(v);
    if (!is_effect(p.insts[i].op)) p.names[i] = std::to_string(v);
  }
  return print(p);
}

}  // namespace stepfuse
