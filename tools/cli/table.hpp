// Aligned columns of text. Knows only std.
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
  // Left-aligns this column as well.
  Table& left(size_t column);
  bool empty() const { return rows_.empty(); }
  // Separates columns by two spaces; columns without left() are aligned as given.
  std::string text(std::string_view indent = "", Align others = Align::right) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::set<size_t> left_ = {0};
};

// Formats "1,234,567".
std::string with_commas(uint64_t n);
// Formats "0 B", "1.5 kB" or "498 MB", in powers of ten as in datasheets.
std::string human_bytes(double bytes);
// Formats at most two decimals, and none if they are zero.
std::string short_number(double value);

}  // namespace stepfuse::cli
