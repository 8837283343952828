// Text of the CUDA emitter: indented lines with comments, C++ types and literals. Knows ir's types.
#pragma once

#include <string>
#include <string_view>

#include <stepfuse/types.hpp>

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

}  // namespace stepfuse::cuda
