// Numbers are read whole or not at all; lists are split at separators that end an item.
#include "ir/text/words.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

using namespace stepfuse;

TEST_CASE("a number is the whole text, and one that its type holds") {
  CHECK(parse_number<int>("-17") == -17);
  CHECK(parse_number<uint64_t>("18446744073709551615") == ~uint64_t{0});
  CHECK(parse_number<double>("1e-3") == 1e-3);
  CHECK(parse_number<uint64_t>("ff", 16) == uint64_t{255});
  for (std::string_view text : {"", " 1", "1 ", "1x", "+1", "x", "1.5", "99999999999"}) {
    CHECK_MESSAGE(!parse_number<int>(text), text);
  }
  CHECK(!parse_number<uint32_t>("-1"));
  CHECK(!parse_number<double>("1e999"));
}

TEST_CASE("a separator ends an item") {
  using Items = std::vector<std::string_view>;
  CHECK(split("", ",").empty());
  CHECK(split("a", ",") == Items{"a"});
  CHECK(split("a,b", ",") == Items{"a", "b"});
  CHECK(split("a,", ",") == Items{"a"});
  CHECK(split(",a,,b", ",") == Items{"", "a", "", "b"});
  CHECK(split("a|b,c", "|,") == Items{"a", "b", "c"});
}
