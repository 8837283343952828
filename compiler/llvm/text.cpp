// Writes types, literals and names of LLVM IR text. Knows ir, fmt and the target.
#include "compiler/llvm/text.hpp"

#include <algorithm>
#include <bit>

#include <stepfuse/error.hpp>

#include "ir/text/words.hpp"

namespace stepfuse::llvm {
namespace {

// Whether a feature list "+a,-b,…" contains "+name".
bool has_feature(std::string_view features, std::string_view name) {
  std::vector<std::string_view> items = split(features, ",");
  return std::find(items.begin(), items.end(), fmt::format("+{}", name)) != items.end();
}

std::string vector_text(std::string_view element, int lanes) {
  return lanes == 1 ? std::string(element) : fmt::format("<{} x {}>", lanes, element);
}

std::string repeat(std::string_view type, std::string_view value, int lanes) {
  if (lanes == 1) return std::string(value);
  return vector_of(type, lanes, [&](int) { return value; });
}

}  // namespace

Module::Module(const CpuTarget& target)
    : lanes(target.vector_bits / 32),
      has_fma(has_feature(target.features, "fma") || has_feature(target.features, "neon")),
      has_f16(has_feature(target.features, "f16c") || has_feature(target.features, "neon")),
      has_bf16(target.vector_bits == 512 && has_feature(target.features, "avx512bf16") &&
               has_feature(target.features, "avx512dq")),
      has_rounding(has_feature(target.features, "sse4.1") || has_feature(target.features, "neon")),
      has_permutes((lanes == 8 && has_feature(target.features, "avx2")) ||
                   (lanes == 16 && has_feature(target.features, "avx512f"))),
      has_byte_permutes(lanes == 16 && has_feature(target.features, "avx512vbmi")),
      has_masks(has_feature(target.features, "avx512bw") &&
                has_feature(target.features, "avx512vl")),
      has_word_masks(lanes == 8 && has_feature(target.features, "avx2")) {
  check_internal(lanes >= 4 && std::has_single_bit(static_cast<unsigned>(lanes)),
                 "vector_bits must be a power of two, at least 128");
}

std::string Module::constant(const std::string& hint, const std::string& text) {
  std::string name = hint;
  for (int n = 1; constants.try_emplace(name, text).first->second != text; ++n) {
    name = fmt::format("{}.{}", hint, n);
  }
  return name;
}

std::string type_text(DType t, int lanes) {
  if (t == DType::f32) return vector_text("float", lanes);
  if (t == DType::f64) return vector_text("double", lanes);
  return integer_type_text(t == DType::boolean ? 1 : static_cast<int>(8 * size_of(t)), lanes);
}

std::string suffix_text(DType t, int lanes) {
  return (lanes == 1 ? "" : fmt::format("v{}", lanes)) + std::string(name(t));
}

std::string memory_type_text(DType t, int lanes) {
  return t == DType::boolean ? vector_text("i8", lanes) : type_text(t, lanes);
}

std::string literal(DType t, Bits v) {
  switch (t) {
    case DType::boolean:
      return v.b() ? "true" : "false";
    case DType::i32:
      return fmt::format("{}", v.i32());
    case DType::i64:
      return fmt::format("{}", v.i64());
    case DType::f32:
      // LLVM writes a float as the double with the same value.
      return fmt::format("0x{:016X}", std::bit_cast<uint64_t>(static_cast<double>(v.f32())));
    case DType::f64:
      return fmt::format("0x{:016X}", v.raw);
    default:
      return fmt::format("{}", v.raw);
  }
}

std::string list_text(std::span<const float> values) {
  std::string list;
  for (float v : values) {
    list += fmt::format("{}float {}", list.empty() ? "" : ", ", literal(DType::f32, Bits::of(v)));
  }
  return list;
}

std::string constant_text(DType t, Bits v, int lanes) {
  return repeat(type_text(t, 1), literal(t, v), lanes);
}

std::string integer_type_text(int bits, int lanes) {
  return vector_text(fmt::format("i{}", bits), lanes);
}

std::string integer_text(int bits, uint64_t v, int lanes) {
  return repeat(fmt::format("i{}", bits), fmt::format("{}", v), lanes);
}

void Function::if_(std::string_view hint, std::string_view condition, const Emit& then,
                   const Emit& otherwise, bool unlikely) {
  std::string yes = label(hint);
  std::string no = label(fmt::format("{}.else", hint));
  std::string end = label(fmt::format("{}.end", hint));
  line("br i1 {}, label %{}, label %{}{}", condition, then ? yes : end, otherwise ? no : end,
       unlikely ? ", !prof !1" : "");
  auto emit = [&](const std::string& start, const Emit& what) {
    if (!what) return;
    block(start);
    what();
    jump(end);
  };
  emit(yes, then);
  emit(no, otherwise);
  block(end);
}

std::string Function::choose(std::string_view hint, std::string_view type,
                             std::string_view condition, const EmitValue& then,
                             const EmitValue& otherwise, bool unlikely) {
  std::string at = allocate(hint, type, 64);
  auto keep = [&](const EmitValue& value) {
    return [&] { line("store {} {}, ptr {}, align 64", type, value(), at); };
  };
  if_("choice", condition, keep(then), keep(otherwise), unlikely);
  return set(hint, "load {}, ptr {}, align 64", type, at);
}

// The test is behind the body, where LLVM's passes would not move it.
void Function::loop(std::string_view hint, std::string_view first, std::string_view end,
                    const std::function<void(const std::string& i)>& body, int64_t step) {
  std::string at = allocate(hint, "i64", 8);
  line("store i64 {}, ptr {}", first, at);
  std::string some = set("some", "icmp ult i64 {}, {}", first, end);
  if_(fmt::format("{}.some", hint), some, [&] {
    std::string head = label(fmt::format("{}.loop", hint));
    std::string done = label(fmt::format("{}.done", hint));
    jump(head);
    block(head);
    std::string i = set(hint, "load i64, ptr {}", at);
    body(i);
    std::string next = set("next", "add nuw i64 {}, {}", i, step);
    line("store i64 {}, ptr {}", next, at);
    branch(set("more", "icmp ult i64 {}, {}", next, end), head, done);
    block(done);
  });
}

}  // namespace stepfuse::llvm
