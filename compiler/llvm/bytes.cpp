// Functions of a loaded byte, looked up for 64 bytes at once, or one by one. Knows the plan and the text
// vocabulary.
//
// A table of 256 floats is split into four tables of their bytes, each in four registers. One permutation
// finds the bytes of 64 codes among 128. The bytes of one float are then brought together within each
// quarter of the registers. Therefore the codes are first put into the order in which their floats come
// out.
#include <algorithm>
#include <array>
#include <bit>

#include "compiler/llvm/body.hpp"

namespace stepfuse::llvm {
namespace {

constexpr size_t kCodes = 64;  // codes at a time
constexpr const char* kBytes = "<64 x i8>";

std::string list_of(std::span<const uint8_t> bytes) {
  auto byte = [&](int k) { return bytes[static_cast<size_t>(k)]; };
  return fmt::format("{} {}", kBytes, vector_of("i8", static_cast<int>(bytes.size()), byte));
}

// The lower or the upper halves of two vectors' quarters, one element from each in turn.
auto turns(int lanes, bool upper) {
  return [=](int k) {
    int quarter = lanes / 4;
    int from = k / quarter * quarter + (upper ? quarter / 2 : 0) + k % quarter / 2;
    return from + (k % 2 == 0 ? 0 : lanes);
  };
}

}  // namespace

// Looks up byte `number` of the values.
std::string BodyEmitter::byte_of(const plan::ByteFunction& function, int number,
                                 const std::string& codes, const std::string& is_upper) {
  std::array<uint8_t, 256> bytes;
  std::transform(function.values.begin(), function.values.end(), bytes.begin(), [&](float v) {
    return static_cast<uint8_t>(std::bit_cast<uint32_t>(v) >> (8 * number));
  });
  std::span<const uint8_t> all(bytes);
  if (std::adjacent_find(bytes.begin(), bytes.end(), std::not_equal_to<>()) == bytes.end()) {
    return list_of(all.first(kCodes)).substr(std::string_view(kBytes).size() + 1);
  }
  constexpr const char* kPermute = "@llvm.x86.avx512.vpermi2var.qi.512";
  m_.declarations.insert(fmt::format("declare {0} {1}({0}, {0}, {0})", kBytes, kPermute));
  auto among = [&](std::span<const uint8_t> half) {
    return f_.set("byte", "call {} {}({}, {} {}, {})", kBytes, kPermute,
                  list_of(half.first(kCodes)), kBytes, codes, list_of(half.last(kCodes)));
  };
  std::string low = among(all.first(128));
  if (std::equal(bytes.begin(), bytes.begin() + 128, bytes.begin() + 128)) return low;
  return f_.set("byte", "select <64 x i1> {}, {} {}, {} {}", is_upper, kBytes, among(all.last(128)),
                kBytes, low);
}

// Writes the function's values for the unit to an array.
void BodyEmitter::decode(const plan::ByteFunction& function, const Stream& stream,
                         const std::string& array) {
  f_.loop("codes", "0", count_in_unit(kCodes), [&](const std::string& i) {
    f_.comment(plan_[function.value].text);
    std::string at = f_.address("at", stream.pointer, i, kCodes);
    std::string loaded = f_.set("codes", "load <16 x i32>, ptr {}, align 1", at);
    std::string turned = f_.shuffle("codes", "<16 x i32>", loaded, "poison", 16,
                                    [](int k) { return k % 4 * 4 + k / 4; });
    std::string codes = f_.set("codes", "bitcast <16 x i32> {} to {}", turned, kBytes);
    std::string is_upper = f_.set("upper", "icmp slt {} {}, zeroinitializer", kBytes, codes);
    std::array<std::string, 4> bytes;
    for (int b = 0; b < 4; ++b)
      bytes[static_cast<size_t>(b)] = byte_of(function, b, codes, is_upper);
    std::string to = f_.address("to", array, i, kCodes * sizeof(float));
    auto pair = [&](const std::string& a, const std::string& b, bool upper) {
      std::string both = f_.shuffle("pair", kBytes, a, b, kCodes, turns(kCodes, upper));
      return f_.set("pair", "bitcast {} {} to <32 x i16>", kBytes, both);
    };
    for (size_t half = 0; half < 2; ++half) {
      std::string low = pair(bytes[0], bytes[1], half == 1);
      std::string high = pair(bytes[2], bytes[3], half == 1);
      for (size_t part = 0; part < 2; ++part) {
        std::string whole = f_.shuffle("whole", "<32 x i16>", low, high, 32, turns(32, part == 1));
        f_.line("store <32 x i16> {}, ptr {}, align 64", whole,
                f_.address("to", to, std::to_string(2 * half + part), 64));
      }
    }
    f_.end_comment();
  });
}

// Looks up one by one, with bytes as indices of loads.
std::string BodyEmitter::look_up(const plan::ByteFunction& function, const Stream& stream) {
  const std::string& hint = name(function.value);
  std::string array = m_.constant(
      fmt::format("bytes.{}.{}", stepfuse::name(stream.dtype), hint),
      fmt::format("[{} x float] [{}]", function.values.size(), list_text(function.values)));
  std::string floats = vector_.type(DType::f32);
  std::string all = "poison";
  for (int k = 0; k < m_.lanes; ++k) {
    std::string from = f_.address("at", stream.address, std::to_string(k), 1);
    std::string byte = f_.set(hint, "load i8, ptr {}", from);
    std::string wide = f_.set(hint, "zext i8 {} to i64", byte);
    std::string place = f_.set(hint, "getelementptr float, ptr @{}, i64 {}", array, wide);
    std::string value = f_.set(hint, "load float, ptr {}", place);
    all = f_.set(hint, "insertelement {} {}, float {}, i32 {}", floats, all, value, k);
  }
  return all;
}

// Decodes what the pass makes of bytes; their vectors are then loaded, or looked up.
void BodyEmitter::decode_bytes(const plan::Pass& pass) {
  decoded_.clear();
  looked_up_.clear();
  if (!m_.has_byte_permutes && m_.lanes > 8) return;
  std::span<const plan::Inst> code = body_.code_of(pass);
  for (const plan::ByteFunction& f : plan::byte_functions_of(plan_, body_)) {
    auto makes = [&](plan::Id v) {
      return std::find_if(code.begin(), code.end(),
                          [&](const plan::Inst& i) { return i.value == v; });
    };
    auto load = makes(f.byte);
    auto result = makes(f.value);
    if (load == code.end() || result == code.end()) continue;
    auto stream = static_cast<size_t>(load->index);
    if (!m_.has_byte_permutes) {
      bool is_short = result->op == Op::cast && m_.has_f16;
      if (!is_short) looked_up_.insert({f.value, {f, stream}});
      continue;
    }
    std::string& array = decoded_[f.value];
    array = storage_.unit("decoded", decoded_.size());
    decode(f, streams_[stream], array);
  }
}

}  // namespace stepfuse::llvm
