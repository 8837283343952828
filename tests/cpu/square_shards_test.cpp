// Shards of a step with squares: cut between squares they make the codes and scales of the whole tensor. Knows the
// public API.
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/stepfuse.hpp>

#include "tests/support/messages.hpp"
#include "tests/support/row_shards.hpp"
#include "tests/support/sides.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr size_t kRows = 100, kColumns = 384;

// The scales of squares go to their own buffer and, once per row, to that of blocks.
constexpr const char* kQuantize = R"(step @quantize {
  buffer @weight : f32 in
  buffer @code : f8e4m3 out
  buffer @scale : <f8e5m2/128x128> out
  buffer @in_rows : <f8e5m2/32> out
  %w = load @weight : [f32]
  %size = abs %w : [f32]
  %most = reduce_max %size : <f32/128x128>
  %scale = cast %most : <f8e5m2/128x128>
  %power = cast %scale : <f32/128x128>
  %part = div %w, %power : [f32]
  %code = cast %part : [f8e4m3]
  store @code, %code
  store @scale, %scale
  store @in_rows, %scale
})";

struct Quantized {
  std::vector<uint8_t> codes, scales, in_rows;
  friend bool operator==(const Quantized&, const Quantized&) = default;
};

// The elements of a row that share a value of @in_rows: they lie in one square.
size_t block_of(int side) { return side == 16 ? 16 : 32; }

// `cuts`: the rows between which the shards lie.
Quantized quantize(int side, const std::vector<size_t>& cuts, const Device& device) {
  auto square = static_cast<size_t>(side);
  size_t along = kColumns / square, block = block_of(side);
  std::vector<float> weight(kRows * kColumns);
  for (size_t i = 0; i < weight.size(); ++i) {
    weight[i] = std::ldexp(std::sin(static_cast<float>(i)), static_cast<int>(i / 10000));
  }
  Quantized q{std::vector<uint8_t>(weight.size()),
              std::vector<uint8_t>((kRows + square - 1) / square * along),
              std::vector<uint8_t>(weight.size() / block)};
  std::vector<void*> weights, codes, scales, in_rows;
  for (size_t k = 0; k + 1 < cuts.size(); ++k) {
    weights.push_back(&weight[cuts[k] * kColumns]);
    codes.push_back(&q.codes[cuts[k] * kColumns]);
    scales.push_back(&q.scales[cuts[k] / square * along]);
    in_rows.push_back(&q.in_rows[cuts[k] * kColumns / block]);
  }
  std::string text = with_side(kQuantize, side);
  if (block == 16) text.replace(text.find("/32>"), 4, "/16>");
  Step step(parse(text), row_shards(cuts, kColumns), device);
  step.bind_raw("weight", weights);
  step.bind_raw("code", codes);
  step.bind_raw("scale", scales);
  step.bind_raw("in_rows", in_rows);
  step.prepare();
  step.run({}, step.make_args());
  return q;
}

}  // namespace

TEST_CASE("squares: shards that are cut between squares make the whole tensor's values") {
  for (int side : {16, 32, 128}) {
    CAPTURE(side);
    auto square = static_cast<size_t>(side);
    Quantized whole = quantize(side, {0, kRows}, Device::interpreter());
    std::vector<size_t> cuts = {0};
    if (square < kRows) cuts.push_back(square);
    if (2 * square < kRows) cuts.push_back(2 * square);
    cuts.push_back(kRows);
    for (const Device& device : {Device::interpreter(), Device::cpu(2)}) {
      CHECK(quantize(side, {0, kRows}, device) == whole);
      CHECK(quantize(side, cuts, device) == whole);
    }
    // Each row has the scales of its squares.
    size_t block = block_of(side);
    for (size_t at = 0; at < whole.in_rows.size(); ++at) {
      size_t row = at / (kColumns / block), column = at % (kColumns / block) * block;
      REQUIRE(whole.in_rows[at] ==
              whole.scales[row / square * (kColumns / square) + column / square]);
    }
  }
}

TEST_CASE("squares: a shard that is cut within squares is refused with the sizes that work") {
  for (int side : {32, 128}) {
    CAPTURE(side);
    std::string message =
        message_of(ErrorKind::bind, [&] { quantize(side, {0, 16, kRows}, Device::cpu(1)); });
    CHECK(has(message,
              fmt::format("tensor 0 'w' is a shard that is cut within {} rows of 384", side)));
    CHECK(has(message, fmt::format("at multiples of {} elements", side * 384)));
  }
}
