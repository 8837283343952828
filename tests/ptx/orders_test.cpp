// Buffers with another buffer's values in a different order, on the PTX machine: transposed and swizzled, by all
// blocks, in every form. Knows the compiler, the PTX machine and the interpreter.
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "tests/ptx/edited_kernel.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tests/support/orders_step.hpp"
#include "tests/support/random_data.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

std::string outcome(const std::string& step, Form form, const DeviceRun& options,
                    const std::string& from = "", const std::string& to = "") {
  Program program = parse(step);
  TestLayout layout = orders_layout(program);
  Variant variant = make_variant(optimize(program, layout.signatures), layout.signatures, form);
  TestData input(program, layout, 5, Inputs::normal);
  return run_edited(program, std::move(variant), input, options, from, to).any();
}

}  // namespace

TEST_CASE("values are arranged in every form") {
  STEPFUSE_NEEDS_NVRTC();
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    for (unsigned blocks : {1U, 3U, 5U}) {
      CAPTURE(name(form));
      CAPTURE(blocks);
      DeviceRun options{.blocks = blocks, .seed = blocks, .incoherent = blocks == 3};
      CHECK(outcome(kOrdersOfElements, form, options) == "");
      CHECK(outcome(kOrdersOfSquares, form, options) == "");
    }
  }
}

// A block reads what others have stored, so it waits for them. The lines that a tile has in shared memory are read when
// all of them are there.
TEST_CASE("a missing barrier or a wrong place is noticed") {
  STEPFUSE_NEEDS_NVRTC();
  const std::pair<std::string, std::string> kEdits[] = {
      {"wait_for(ctx.sync->generation, before);", ""},
      {"for (u32 i = 0; i < kCodes; ++i) turned[word * kCodes + i][line_word] = words[i];\n    }\n"
       "    __syncthreads();",
       "for (u32 i = 0; i < kCodes; ++i) turned[word * kCodes + i][line_word] = words[i];\n    }"},
      {"words[i] ^= crossed << shift;", "words[i] ^= crossed;"},
      {"line % 128 / 32 * 4", "line / 32 * 4"},
      {"if (!exists && !(kSwizzled && place < swizzles * 4)) continue;", "if (!exists) continue;"},
      {"const u64 swizzles = (places + 3) / 4;", "const u64 swizzles = places / 4 + 1;"},
      {"if (tile.tensor == kNone) continue;", ""},
  };
  for (const auto& [from, to] : kEdits) {
    CAPTURE(from);
    DeviceRun options{.blocks = 3, .seed = 3};
    std::string faults = outcome(kOrdersOfElements, Form::fused, options, from, to) +
                         outcome(kOrdersOfSquares, Form::fused, options, from, to);
    CHECK_FALSE(faults.empty());
  }
}
