// Text of the CUDA emitter: indented lines with comments, C++ names, types and literals. Knows ir.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/names.hpp"
#include "compiler/schedule/schedule.hpp"

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

// A C++ identifier for every value and buffer, its IR name behind the letter of its domain, or b.
class Names {
 public:
  explicit Names(const Program& program);
  const std::string& operator[](ValueId v) const { return values_[static_cast<size_t>(v)]; }
  const std::string& buffer(size_t b) const { return buffers_[b]; }

 private:
  std::vector<std::string> values_, buffers_;
};

}  // namespace stepfuse::cuda
