// The vocabulary of LLVM IR text: types, literals, names and lines of one function, and declarations of a
// module. Knows ir, fmt and the target.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <stepfuse/types.hpp>

#include "compiler/llvm/emit.hpp"
#include "compiler/names.hpp"

namespace stepfuse::llvm {

// Collected while functions are emitted: the target's features, and the helpers that functions call.
struct Module {
  int lanes = 4;                       // 32-bit elements of one explicit vector
  bool has_fma = false;                // otherwise fma consists of other operations
  bool has_f16 = false;                // conversions between f16 and f32 in hardware
  bool has_bf16 = false;               // rounding of whole vectors to bf16
  bool has_rounding = false;           // rounding to integers, in the float's own format
  bool has_permutes = false;           // of a vector's lanes, by indices in a vector
  bool has_byte_permutes = false;      // of 64 bytes among 128
  bool has_masks = false;              // loads and stores of some lanes, of any element size
  bool has_word_masks = false;         // loads of some lanes of 4 bytes; such stores take too long
  std::set<std::string> declarations;  // of intrinsics
  std::map<std::string, std::string> helpers;    // internal functions, by name
  std::map<std::string, std::string> constants;  // type and value, by name

  explicit Module(const CpuTarget& target);

  // Returns the name of the constant: "hint", or "hint.1", … if that is a different constant.
  std::string constant(const std::string& hint, const std::string& text);
};

// Returns the type of `lanes` values in registers: low-precision floats are their bits, bool is i1.
std::string type_text(DType t, int lanes);
// Returns "v16f32", "f32", "v16i32", …: the suffix of an overloaded intrinsic.
std::string suffix_text(DType t, int lanes);
// Returns the type in arrays, where bool is a byte.
std::string memory_type_text(DType t, int lanes);

std::string literal(DType t, Bits v);                       // one scalar, without its type
std::string list_text(std::span<const float> values);       // "float 1.0, float …"
std::string constant_text(DType t, Bits v, int lanes);      // the same in every lane
std::string integer_text(int bits, uint64_t v, int lanes);  // the same for iN
std::string integer_type_text(int bits, int lanes);

// "<TYPE of(0), TYPE of(1), …>", a vector of constants.
template <class F>
std::string vector_of(std::string_view type, int count, F of) {
  std::string text;
  for (int k = 0; k < count; ++k) {
    text += fmt::format("{}{} {}", k == 0 ? "<" : ", ", type, of(k));
  }
  return text + ">";
}

// The text of one function: lines, and names that are unique within it.
class Function {
 public:
  Function() {
    // Reserves the names of the entry block and of every function's parameters.
    for (const char* taken : {"entry", "ctx", "begin", "end"}) unique(taken);
  }
  // Returns "%hint", or "%hint.1", "%hint.2", … if that is taken.
  std::string name(std::string_view hint) { return "%" + unique(hint); }
  // Does the same for a label; branches write it as "label %{}".
  std::string label(std::string_view hint) { return unique(hint); }

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += "  ";
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  // Writes "%hint = …"; returns the name.
  template <class... Args>
  std::string set(std::string_view hint, fmt::format_string<Args...> format, Args&&... args) {
    std::string result = name(hint);
    line("{} = {}", result, fmt::format(format, std::forward<Args>(args)...));
    return result;
  }
  void block(std::string_view label) { text_ += fmt::format("{}:\n", label); }
  void jump(std::string_view label) { line("br label %{}", label); }
  void branch(std::string_view condition, std::string_view yes, std::string_view no) {
    line("br i1 {}, label %{}, label %{}", condition, yes, no);
  }
  // The lines that follow belong to this line of the step, until the next comment or the end.
  void comment(std::string_view text) { line("; {}", text); }
  void end_comment() { line(";"); }

  // Returns the address of element `index` (an i64) of an array of `bytes`-byte elements.
  std::string address(std::string_view hint, std::string_view base, std::string_view index,
                      size_t bytes) {
    return set(hint, "getelementptr [{} x i8], ptr {}, i64 {}", bytes, base, index);
  }

  // Elements of(0), of(1), … of two vectors of a type.
  template <class F>
  std::string shuffle(std::string_view hint, std::string_view type, std::string_view a,
                      std::string_view b, int count, F of) {
    return set(hint, "shufflevector {0} {1}, {0} {2}, <{3} x i32> {4}", type, a, b, count,
               vector_of("i32", count, of));
  }

  // Memory of the whole function, whatever block asks for it. LLVM's first pass makes registers of it, so whatever
  // a loop or a branch changes is kept there.
  std::string allocate(std::string_view hint, std::string_view type, int alignment) {
    std::string result = name(hint);
    allocations_ += fmt::format("  {} = alloca {}, align {}\n", result, type, alignment);
    return result;
  }
  // Does the same, and stores a value in it where the function starts.
  std::string allocate(std::string_view hint, std::string_view type, std::string_view value) {
    std::string result = allocate(hint, type, 8);
    allocations_ += fmt::format("  store {} {}, ptr {}\n", type, value, result);
    return result;
  }

  // Branches on `condition`, an i1, to what `then` or `otherwise` emits. An `unlikely` condition is rarely true.
  using Emit = std::function<void()>;
  void if_(std::string_view hint, std::string_view condition, const Emit& then,
           const Emit& otherwise = {}, bool unlikely = false);
  // The same for a value of this type, which both return.
  using EmitValue = std::function<std::string()>;
  std::string choose(std::string_view hint, std::string_view type, std::string_view condition,
                     const EmitValue& then, const EmitValue& otherwise, bool unlikely = false);
  // Does what `body` emits for `first`, `first` + `step`, ..., below `end`: three i64.
  void loop(std::string_view hint, std::string_view first, std::string_view end,
            const std::function<void(const std::string& i)>& body, int64_t step = 1);

  // The whole function; what was emitted before the first block() is its entry block.
  std::string take(std::string_view signature) {
    return fmt::format("define {} {{\nentry:\n{}{}}}\n", signature, allocations_, text_);
  }

 private:
  std::string unique(std::string_view hint) { return names_.unique(std::string(hint)); }
  std::string allocations_;
  std::string text_;
  UniqueNames names_{"."};
};

}  // namespace stepfuse::llvm
