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
  std::string text = "<";
  for (int i = 0; i < lanes; ++i) text += fmt::format("{}{} {}", i == 0 ? "" : ", ", type, value);
  return text + ">";
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

}  // namespace stepfuse::llvm
