// Names of generated text are words, told apart, and not longer than compilers take. Knows ir and
// compiler.
#include "compiler/names.hpp"

#include <set>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "compiler/cuda/emit.hpp"
#include "compiler/variant.hpp"

using namespace stepfuse;

TEST_CASE("a name is a word, whatever it was") {
  CHECK(identifier("exp_avg.1") == "exp_avg_1");
  CHECK(identifier("\xc3\xa4-b") == "___b");
  CHECK(identifier(std::string(5000, 'x')).size() < 1000);
}

TEST_CASE("no name is given twice") {
  UniqueNames names;
  CHECK(names.unique("m_1") == "m_1");
  CHECK(names.unique("m") == "m");
  CHECK(names.unique("m") == "m_2");
  CHECK(names.unique("m_2") == "m_2_2");
  CHECK(names.unique("m") == "m_3");
  std::set<std::string> given;
  for (int i = 0; i < 100; ++i) {
    for (const char* base : {"a", "a_2", "a_2_2", "a_22"}) {
      CHECK(given.insert(names.unique(base)).second);
    }
  }
}

TEST_CASE("kernels whose stages have one name, or a kernel's, are told apart") {
  Program p = parse(R"(step @a.b {
  buffer @w : f32 inout
  stage finish
  %w = load @w : [f32]
  %s = reduce_add %w : f32
  %x = mul %w, %s : [f32]
  stage finish1
  store @w, %x
}
)");
  Variant s = make_variant(p, {{DType::f32}}, Form::unfused);
  std::set<std::string> kernels;
  for (const plan::Kernel& k : s.plan.kernels)
    CHECK(kernels.insert(cuda_entry_name(k.name)).second);
  CHECK(kernels.contains("sf_a_b_finish"));
  CHECK(kernels.size() == 4);
}
