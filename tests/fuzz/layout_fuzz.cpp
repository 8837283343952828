// Damaged layout files: an error that names file and place, or tensors of the sizes that the file
// says. Knows layout files.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <stepfuse/recipes.hpp>

#include "tests/fuzz/fuzz.hpp"
#include "tools/workload/layout_file.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

__extension__ using Wide = unsigned __int128;

constexpr const char* kText = R"({"name": "n", "source": "s", "tensors": [
  {"name": "a", "shape": [3, 4]}, {"name": "b", "shape": [], "group": 2, "count": 2,
   "dtypes": {"grad": "f16"}, "misalign": 4}, {"name": "c", "shape": [5, 0], "misalign": {"grad": 1}}]})";

std::string with_other_numbers(std::string text, Rng& rng) {
  for (int n = rng.between(1, 2); n > 0; --n) {
    size_t digit = text.find_first_of("0123456789", rng.below(text.size()));
    if (digit == std::string::npos) continue;
    text.replace(digit, 1,
                 rng.pick<std::string>({"1e999", "18446744073709551615", "9223372036854775808",
                                        "4294967296", "4294967297", "65536", "0", "-1", "1.5"}));
  }
  return text;
}

void check_sizes(const std::string& text, const Layout& layout) {
  nlohmann::json root = nlohmann::json::parse(text);
  size_t t = 0;
  for (const auto& entry : root["tensors"]) {
    Wide size = 1;
    for (const auto& n : entry["shape"]) size *= n.get<uint64_t>();
    for (uint64_t i = entry.value("count", uint64_t{1}); i > 0; --i, ++t) {
      REQUIRE(t < layout.size());
      CHECK(layout.tensors()[t].elements == size);
      CHECK(layout.tensors()[t].group == entry.value("group", uint64_t{0}));
    }
  }
  CHECK(t == layout.size());
}

}  // namespace

TEST_CASE("fuzz: layouts") {
  const Program program = make_recipe("adamw", {.grad = DTypeSet(DType::f16) | DType::f32});
  uint64_t accepted = 0;
  fuzz(5000, [&](Rng& rng) {
    const std::string bad = rng.chance(50) ? with_other_numbers(kText, rng) : damaged(kText, rng);
    CAPTURE(bad);
    try {
      Layout layout = make_layout(parse_layout(bad, "f.json"), program);
      check_sizes(bad, layout);
      ++accepted;
    } catch (const Error& e) {
      std::string_view message = e.what();
      CHECK((e.kind() == ErrorKind::parse || e.kind() == ErrorKind::bind));
      CHECK((e.kind() == ErrorKind::bind || message.starts_with("f.json:")));
      CHECK(message.find('\x1b') == std::string_view::npos);
    }
  });
  MESSAGE(accepted << " texts were still layouts");
}
