// Text of the CUDA emitter: indented lines with comments, C++ names, types and literals. Knows ir.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/schedule.hpp"

namespace stepfuse::cuda {

// Collects lines; open() and close() write braces and indent what is between.
class Text {
 public:
  void line(std::string_view code, std::string_view comment = {});
  void open(std::string_view code, std::string_view comment = {});  // "code {"
  void close(std::string_view tail = "}");
  void reopen() { ++depth_; }  // after close("} else {")
  void blank() { text_ += '\n'; }
  void pragma(std::string_view code) { text_ += std::string(code) + "\n"; }
  const std::string& str() const { return text_; }

 private:
  std::string text_;
  int depth_ = 0;
};

// The C++ type of a value in a register, a buffer or a state.
std::string_view c_type(DType t);

// An expression with exactly these bits.
std::string c_literal(Bits v, DType t);

// A C++ identifier for every value: its IR name behind a letter for its domain, so that it is
// stable under changes elsewhere and never a keyword.
class ValueNames {
 public:
  explicit ValueNames(const Program& program);
  const std::string& operator[](ValueId v) const { return names_[static_cast<size_t>(v)]; }

 private:
  std::vector<std::string> names_;
};

// `text` as part of a C++ identifier.
std::string identifier(std::string_view text);

}  // namespace stepfuse::cuda
