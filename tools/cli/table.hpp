// Columns of text for people. Knows only std.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::cli {

class Table {
 public:
  enum class Align { left, right };

  Table& row(std::vector<std::string> cells);
  // Aligns this column to the left as well.
  Table& left(size_t column);
  bool empty() const { return rows_.empty(); }
  // Two spaces between columns; those that are not left() are aligned as told.
  std::string text(std::string_view indent = "", Align others = Align::right) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::set<size_t> left_ = {0};
};

// "1,234,567".
std::string with_commas(uint64_t n);
// "0 B", "1.5 kB", "498 MB", in powers of ten as datasheets count.
std::string human_bytes(double bytes);
// Up to two decimals, none where they are zero.
std::string short_number(double value);

}  // namespace stepfuse::cli
