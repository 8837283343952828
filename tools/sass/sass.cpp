// Reads nvdisasm's text line by line: labels, instructions, and the two words after each.
#include "tools/sass/sass.hpp"

#include <map>
#include <optional>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "ir/text/words.hpp"

namespace stepfuse::sass {
namespace {

std::string_view trimmed(std::string_view s) {
  size_t begin = s.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return s.substr(begin, s.find_last_not_of(" \t\r") + 1 - begin);
}

// Reads "/*0a60*/" or "/* 0x...  */" at the start of `s` and advances `s`.
std::optional<uint64_t> take_number(std::string_view& s) {
  s = trimmed(s);
  size_t end = s.find("*/");
  if (!s.starts_with("/*") || end == std::string_view::npos) return std::nullopt;
  std::string_view digits = trimmed(s.substr(2, end - 2));
  if (digits.starts_with("0x")) digits.remove_prefix(2);
  constexpr int kHex = 16;
  auto value = parse_number<uint64_t>(digits, kHex);
  if (value) s.remove_prefix(end + 2);
  return value;
}

// Decodes the upper word of an instruction.
Control control_of(uint64_t high) {
  auto bits = [&](int from, int count) {
    return static_cast<int>(high >> (from - 64) & ((uint64_t{1} << count) - 1));
  };
  return {.stall = bits(105, 4),
          .write_barrier = bits(110, 3),
          .read_barrier = bits(113, 3),
          .waits = static_cast<uint32_t>(bits(116, 6))};
}

class Reader {
 public:
  std::vector<Function> read(std::string_view text) {
    for (std::string_view each : split(text, "\n")) {
      line(each);
      ++line_;
    }
    finish();
    if (functions_.empty()) fail("it has no code");
    return std::move(functions_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(
        ErrorKind::usage,
        fmt::format("line {} of the disassembly: {}; expected the output of `nvdisasm -c -hex`",
                    line_, what));
  }

  void line(std::string_view text) {
    constexpr std::string_view kSection = ".text.";
    std::string_view s = trimmed(text);
    if (s.starts_with(kSection) && s.ends_with(':')) {
      finish();
      functions_.push_back({std::string(s.substr(6, s.size() - 7)), {}});
    } else if (s.starts_with(".L_") && s.ends_with(':')) {
      if (!functions_.empty())
        labels_[std::string(s.substr(0, s.size() - 1))] =
            static_cast<int>(functions_.back().code.size());
    } else if (s.starts_with("/*")) {
      words(s);
    }
  }

  void words(std::string_view s) {
    std::optional<uint64_t> number = take_number(s);
    if (!number || functions_.empty()) fail("expected a number");
    std::vector<Instruction>& code = functions_.back().code;
    size_t semicolon = s.find(';');
    if (semicolon == std::string_view::npos) {  // the upper word of the previous instruction
      if (code.empty()) fail("a control word without its instruction");
      code.back().control = control_of(*number);
      return;
    }
    code.push_back(instruction(*number, trimmed(s.substr(0, semicolon))));
  }

  Instruction instruction(uint64_t address, std::string_view s) {
    Instruction i;
    i.address = address;
    auto word = [&] {
      size_t end = std::min(s.find(' '), s.size());
      std::string_view w = s.substr(0, end);
      s = trimmed(s.substr(end));
      return std::string(w);
    };
    if (s.starts_with('@')) i.predicate = word();
    i.opcode = word();
    i.operands = s;
    return i;
  }

  // Branches get their targets once all labels of the function are known.
  void finish() {
    if (functions_.empty()) return;
    for (Instruction& i : functions_.back().code) {
      size_t begin = i.operands.find("`(");
      if ((i.base() != "BRA" && i.base() != "CALL") || begin == std::string::npos) continue;
      auto found = labels_.find(i.operands.substr(begin + 2, i.operands.find(')') - begin - 2));
      if (found != labels_.end()) {
        i.target = found->second;
      } else if (i.base() == "BRA") {
        fail(fmt::format("{} goes nowhere", i.operands));
      }
    }
    labels_.clear();
  }

  int line_ = 1;
  std::vector<Function> functions_;
  std::map<std::string, int> labels_;
};

}  // namespace

std::string_view Instruction::base() const {
  return std::string_view(opcode).substr(0, opcode.find('.'));
}

bool Instruction::has(std::string_view modifier) const {
  std::string_view rest = opcode;
  while (true) {
    size_t dot = rest.find('.');
    if (rest.substr(0, dot) == modifier) return true;
    if (dot == std::string_view::npos) return false;
    rest.remove_prefix(dot + 1);
  }
}

int Instruction::bytes() const {
  constexpr struct {
    std::string_view modifier;
    int bytes;
  } kWidths[] = {{"256", 32}, {"128", 16}, {"64", 8}, {"U16", 2}, {"S16", 2}, {"U8", 1}, {"S8", 1}};
  for (const auto& [modifier, bytes] : kWidths) {
    if (has(modifier)) return bytes;
  }
  return 4;
}

std::vector<Function> parse(std::string_view text) { return Reader().read(text); }

}  // namespace stepfuse::sass
