// Buffers with another buffer's values in a different order: the interpreter compared with rules written here from the
// documents of those who read such arrays, and CPU kernels with the interpreter. Knows ir and the compiler.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/stepfuse.hpp>

#include "ir/semantics/interpreter.hpp"
#include "tests/support/check.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/orders_step.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

using Bytes = std::vector<uint8_t>;

// The matrix of `rows` lines with `bytes` bytes in each place, transposed.
Bytes transposed(const Bytes& from, size_t rows, size_t columns, size_t bytes) {
  Bytes to(from.size());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      std::memcpy(&to[(c * rows + r) * bytes], &from[(r * columns + c) * bytes], bytes);
    }
  }
  return to;
}

// Codes of 4 bits as bytes, and back.
Bytes unpacked(const Bytes& from) {
  Bytes to;
  for (uint8_t byte : from) {
    to.push_back(byte & 15);
    to.push_back(byte >> 4);
  }
  return to;
}

// The steps of torchao's to_blocked: pad to 128 x 4, view as (row blocks, 128, column blocks, 4), exchange the middle
// two, view each block as (4, 32, 4), and exchange its first two.
Bytes blocked(const Bytes& from, size_t rows, size_t columns) {
  size_t row_blocks = (rows + 127) / 128, column_blocks = (columns + 3) / 4;
  Bytes to;
  for (size_t i = 0; i < row_blocks; ++i) {
    for (size_t j = 0; j < column_blocks; ++j) {
      for (size_t thirty_second = 0; thirty_second < 32; ++thirty_second) {
        for (size_t quarter = 0; quarter < 4; ++quarter) {
          for (size_t k = 0; k < 4; ++k) {
            size_t row = 128 * i + 32 * quarter + thirty_second, column = 4 * j + k;
            to.push_back(row < rows && column < columns ? from[row * columns + column] : 0);
          }
        }
      }
    }
  }
  return to;
}

// Blocks of `side` in a row whose values are the same in `side` rows: those of the transposed matrix.
Bytes transposed_scales(const Bytes& from, size_t rows, size_t columns, size_t side) {
  Bytes to;
  for (size_t c = 0; c < columns; ++c) {
    for (size_t block = 0; block < rows / side; ++block) {
      to.push_back(from[block * side * (columns / side) + c / side]);
    }
  }
  return to;
}

struct Ran {
  Program program;
  TestData data;
  explicit Ran(const char* text)
      : program(parse(text)), data(program, orders_layout(program), 7, Inputs::normal) {
    interpret(program, data.step());
  }
  Bytes operator()(size_t tensor, std::string_view buffer) const {
    const GuardedArray& a = data.array(tensor, static_cast<size_t>(program.find_buffer(buffer)));
    Bytes bytes(a.bytes());
    if (!bytes.empty()) std::memcpy(bytes.data(), a.data(), bytes.size());
    return bytes;
  }
};

}  // namespace

TEST_CASE("the interpreter arranges elements and scales of blocks") {
  Ran ran(kOrdersOfElements);
  for (size_t t = 0; t < ran.data.layout().tensors.size(); ++t) {
    const LayoutTensor& tensor = ran.data.layout().tensors[t];
    size_t columns = tensor.columns, rows = tensor.size / columns;
    CAPTURE(t);
    if (!tensor.present) continue;
    CHECK(ran(t, "w_t") == transposed(ran(t, "w"), rows, columns, 4));
    CHECK(ran(t, "half_t") == transposed(ran(t, "half"), rows, columns, 2));
    CHECK(ran(t, "code_t") == transposed(ran(t, "code"), rows, columns, 1));
    CHECK(ran(t, "exponent_s") == blocked(ran(t, "exponent"), rows, columns / 32));
  }
}

TEST_CASE("the interpreter arranges packed codes and scales of squares") {
  Ran ran(kOrdersOfSquares);
  for (size_t t = 0; t < ran.data.layout().tensors.size(); ++t) {
    const LayoutTensor& tensor = ran.data.layout().tensors[t];
    size_t columns = tensor.columns, rows = tensor.size / columns;
    CAPTURE(t);
    if (!tensor.present) continue;
    Bytes codes = unpacked(ran(t, "codes"));
    CHECK(unpacked(ran(t, "codes_t")) == transposed(codes, rows, columns, 1));
    Bytes turned = transposed_scales(ran(t, "scale"), rows, columns, 16);
    CHECK(ran(t, "scale_t") == turned);
    CHECK(ran(t, "scale_s") == blocked(ran(t, "scale"), rows, columns / 16));
    CHECK(ran(t, "scale_ts") == blocked(turned, columns, rows / 16));
    CHECK(ran(t, "large_t") ==
          transposed(ran(t, "large"), (rows + 127) / 128, (columns + 127) / 128, 4));
  }
}

// A tensor that is absent, or whose step is skipped, keeps what it has.
TEST_CASE("absent tensors keep their arrays") {
  Program program = parse(kOrdersOfElements);
  TestData before(program, orders_layout(program), 7, Inputs::normal);
  Ran ran(kOrdersOfElements);
  auto buffer = static_cast<size_t>(program.find_buffer("code_t"));
  for (size_t t = 0; t < before.layout().tensors.size(); ++t) {
    if (before.layout().tensors[t].present) continue;
    const GuardedArray& a = before.array(t, buffer);
    CHECK(std::memcmp(a.data(), ran.data.array(t, buffer).data(), a.bytes()) == 0);
  }
}

TEST_CASE("CPU kernels arrange as the interpreter does") {
  for (const char* text : {kOrdersOfElements, kOrdersOfSquares}) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      CAPTURE(seed);
      Fault fault = check_cpu(Case(parse(text), seed));
      CHECK_MESSAGE(!fault, fault.value_or(""));
    }
  }
}

TEST_CASE("tensors that cannot be arranged are refused") {
  Program program = parse(kOrdersOfElements);
  auto message = [&](TensorSpec spec) {
    spec.name = "w";
    Layout layout;
    layout.add(spec);
    return message_of([&] { Step(program, layout, Device::cpu()); });
  };
  CHECK(has(message({.elements = 24 * 64, .columns = 64}),
            "has 24 rows of 64, and @w_t of step @elements is transposed: both numbers must be "
            "multiples of 16"));
  CHECK(has(message({.elements = 32 * 48, .columns = 48}),
            "has rows of 48, and @exponent_s of step @elements has the values of blocks of 32"));
  CHECK(has(message({.elements = 16 * 64 + 32, .full_elements = 32 * 64, .columns = 64}),
            "is a shard that is cut within a row of 64"));
  CHECK(
      message({.elements = 32 * 64, .offset = 16 * 64, .full_elements = 64 * 64, .columns = 64}) ==
      "no error");
}
