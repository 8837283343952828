// Random numbers of a vector's elements: Philox4x32-10 as ir/semantics/random.hpp defines it. Knows the
// plan, the kernel ABI, and ir's constants.
//
// A block's four words are adjacent, in the lanes of its four elements: [c0 c1 c2 c3]. A round is one
// widening multiplication of the even lanes, a reversal of each block, and exclusive ors. Vectors start at
// multiples of four of the full tensor, as shards and pieces do. In a step with rows they may start
// anywhere.
#include "ir/semantics/random.hpp"

#include <cstddef>

#include "compiler/llvm/body.hpp"

namespace stepfuse::llvm {
// Alternates two i64: one for the even lanes of i32, one for the odd ones.
std::string BodyEmitter::pairs(const std::string& a, const std::string& b) {
  int halves = m_.lanes / 2;
  std::string type = integer_type_text(64, halves);
  std::string one = f_.set("pair", "insertelement {} poison, i64 {}, i32 0", type, a);
  std::string two = f_.set("pair", "insertelement {} {}, i64 {}, i32 1", type, one, b);
  return f_.shuffle("pairs", type, two, "poison", halves, [](int k) { return k % 2; });
}

// Computes the values that all elements of the chunk share.
void BodyEmitter::prepare_draw(const plan::Inst& inst) {
  Draw& draw = draws_[inst.value];
  auto [seed, count, stream] = inst.operands;
  std::string at =
      f_.set("id", "getelementptr i8, ptr {}, i64 {}", chunk_.record, offsetof(abi::Tensor, id));
  std::string id = f_.set("id", "load i32, ptr {}", at);
  std::string tensor = f_.set("id", "zext i32 {} to i64", id);
  std::string step = f_.set("count", "shl i64 {}, 32", u_[count]);
  std::string wide = f_.set("stream", "zext i32 {} to i64", u_[stream]);
  std::string low = f_.set("stream", "and i64 {}, 65535", wide);
  std::string place = f_.set("stream", "shl i64 {}, 32", low);
  draw.counter = pairs(place, f_.set("counter", "or i64 {}, {}", step, tensor));
  std::string k0 = u_[seed];
  std::string k1 = f_.set("key", "lshr i64 {}, 32", u_[seed]);
  auto word = [&](const std::string& key, uint32_t weyl, int round) {
    uint32_t bump = weyl * static_cast<uint32_t>(round);
    std::string sum = f_.set("key", "add i64 {}, {}", key, bump);
    return f_.set("key", "and i64 {}, 4294967295", sum);
  };
  for (int round = 0; round < kPhiloxRounds; ++round) {
    draw.keys.push_back(pairs(word(k0, kPhiloxWeyl[0], round), word(k1, kPhiloxWeyl[1], round)));
  }
}

std::string BodyEmitter::draw(const plan::Inst& inst, const std::string& i) {
  const std::string& hint = name(inst.value);
  std::string walked = f_.set(hint, "mul i64 {}, {}", i, m_.lanes);
  std::string first = f_.set(hint, "add i64 {}, {}", pass_position_, walked);
  if (!plan_.has_rows) return draw_at(inst, first);
  // Take the words from the two aligned vectors that contain it.
  std::string words = vector_.type(DType::i32);
  std::string skew = f_.set(hint, "and i64 {}, {}", first, m_.lanes - 1);
  std::string begin = f_.set(hint, "sub i64 {}, {}", first, skew);
  std::string behind = f_.set(hint, "add i64 {}, {}", begin, m_.lanes);
  std::string room = f_.allocate(hint, fmt::format("[{} x i32]", 2 * m_.lanes), 64);
  std::string second = f_.set(hint, "getelementptr i32, ptr {}, i64 {}", room, m_.lanes);
  f_.line("store {} {}, ptr {}, align 4", words, draw_at(inst, begin), room);
  f_.line("store {} {}, ptr {}, align 4", words, draw_at(inst, behind), second);
  std::string at = f_.set(hint, "getelementptr i32, ptr {}, i64 {}", room, skew);
  return f_.set(hint, "load {}, ptr {}, align 4", words, at);
}

// Draws for the elements from position `first` on, a multiple of four.
std::string BodyEmitter::draw_at(const plan::Inst& inst, const std::string& first) {
  const Draw& draw = draws_.at(inst.value);
  const std::string& hint = name(inst.value);
  int halves = m_.lanes / 2;
  std::string type = integer_type_text(64, halves);
  auto vector = [&](auto of) { return vector_of("i64", halves, of); };
  auto every = [&](uint64_t value) { return integer_text(64, value, halves); };
  // The numbers of the vector's blocks, with their high bits above the stream's.
  std::string block = f_.set(hint, "lshr i64 {}, 2", first);
  std::string blocks = f_.set(hint, "add {} {}, {}", type, pairs(block, "0"),
                              vector([](int k) { return k % 2 == 0 ? k / 2 : 0; }));
  std::string low = f_.set(hint, "and {} {}, {}", type, blocks, every(0xffffffff));
  std::string high = f_.set(hint, "lshr {} {}, {}", type, blocks, every(32));
  std::string above = f_.set(hint, "shl {} {}, {}", type, high, every(48));
  std::string numbers = f_.set(hint, "or {} {}, {}", type, low, above);
  std::string v = f_.set(hint, "or {} {}, {}", type, numbers, draw.counter);
  std::string multipliers = vector([](int k) { return kPhiloxMultipliers[k % 2]; });
  std::string words = vector_.type(DType::i32);
  for (const std::string& key : draw.keys) {
    std::string even = f_.set(hint, "and {} {}, {}", type, v, every(0xffffffff));
    std::string products = f_.set(hint, "mul {} {}, {}", type, even, multipliers);
    std::string as_words = f_.set(hint, "bitcast {} {} to {}", type, products, words);
    std::string reversed =
        f_.shuffle(hint, words, as_words, "poison", m_.lanes, [](int k) { return k ^ 3; });
    std::string back = f_.set(hint, "bitcast {} {} to {}", words, reversed, type);
    std::string odd = f_.set(hint, "lshr {} {}, {}", type, v, every(32));
    std::string mixed = f_.set(hint, "xor {} {}, {}", type, odd, key);
    v = f_.set(hint, "xor {} {}, {}", type, mixed, back);
  }
  return f_.set(hint, "bitcast {} {} to {}", type, v, words);
}

}  // namespace stepfuse::llvm
