// Faults that an LLVM emitter might have. Knows the shape of the emitted text.
#include "tests/differential/llvm_faults.hpp"

#include <utility>

namespace stepfuse::testing {
namespace {

// An LLVM type of floats, scalar or vector.
constexpr const char* kReal = "(<[0-9]+ x float>|<[0-9]+ x double>|float|double)";

std::string real(const std::string& pattern_with_real) {
  std::string out = pattern_with_real;
  for (size_t at = out.find("REAL"); at != std::string::npos; at = out.find("REAL", at)) {
    out.replace(at, 4, kReal);
  }
  return out;
}

// Neighbouring lanes are added first, halves of the vector last.
std::string fold_neighbours_first(std::string text) {
  size_t begin = text.find("sf_fold_lanes(ptr %lanes, i64");
  if (begin == std::string::npos) return text;
  auto mask_of = [&](size_t line) {
    size_t from = text.find(" x i32> <", line) + 9;
    return std::pair(from, text.find('>', from) - from);
  };
  size_t first = text.find("  %y.", begin);
  size_t last = text.find("  %y.1 =", begin);
  auto [first_at, first_size] = mask_of(first);
  auto [last_at, last_size] = mask_of(last);
  std::string halves = text.substr(first_at, first_size);
  std::string neighbours = text.substr(last_at, last_size);
  text.replace(last_at, last_size, halves);
  text.replace(first_at, first_size, neighbours);
  return text;
}

// 1 / (b * b * …) as (1 / b) * (1 / b) * …
TextEdit invert_base_first() {
  auto of = [](const std::string& type) {
    return within(
        "define internal " + type + " @sf_powi", "\n}\n",
        both(replace_text("  br label %test\ntest:", "  %inverted = fdiv " + type +
                                                         " 1.0, %base\n  %from = select i1 "
                                                         "%negative, " +
                                                         type + " %inverted, " + type +
                                                         " %base\n  br label %test\ntest:"),
             both(replace_text("[ %base, %entry ]", "[ %from, %entry ]"),
                  replace_text("fdiv " + type + " 1.0, %r", "fdiv " + type + " %r, 1.0"))));
  };
  return both(of("float"), of("double"));
}

std::vector<PlantedFault> arithmetic_faults() {
  return {
      {"operands of a subtraction swapped",
       replace_in_lines("= fsub", real("(= fsub REAL) (%[^,]+), (%.+)"), "$1 $4, $3")},
      {"operands of a division swapped",
       replace_in_lines("= fdiv", real("(= fdiv REAL) (%[^,]+), (%.+)"), "$1 $4, $3")},
      {"multiply-add contracted", both(replace_text("= fmul ", "= fmul contract "),
                                       both(replace_text("= fadd ", "= fadd contract "),
                                            replace_text("= fsub ", "= fsub contract ")))},
      {"fma rounds twice",
       replace_in_lines("@llvm.fma.",
                        real("(%[^ ]+) = call REAL @llvm.fma[^(]*\\(\\S.*? ?(%[^,]+), .*?(%[^,]+), "
                             ".*?(%[^,)]+)\\)"),
                        "$1.product = fmul $2 $3, $4\n  $1 = fadd $2 $1.product, $5")},
      {"negation as 0 - x loses -0",
       both(replace_in_lines("= fneg <", "= fneg (<[^>]+>) (%.+)", "= fsub $1 zeroinitializer, $2"),
            replace_in_lines("= fneg ", "= fneg (float|double) (%.+)", "= fsub $1 0.0, $2"))},
      {"minimum drops NaN", replace_text("@llvm.minimum.", "@llvm.minnum.")},
      {"maximum drops NaN", replace_text("@llvm.maximum.", "@llvm.maxnum.")},
      {"less-than is true for NaN", replace_text("= fcmp olt ", "= fcmp ult ")},
      {"powi inverts first", invert_base_first()},
  };
}

std::vector<PlantedFault> conversion_faults() {
  return {
      {"cast to bf16 truncates", replace_in_lines("= add ", "(i32 |, )32767", "$010")},
      {"NaN taken for a number",
       replace_in_lines("= fcmp oeq ", "fcmp oeq (.*) (%[^,]+), \\2$", "fcmp true $1 $2, $2")},
      {"float to integer does not saturate",
       both(replace_in_lines("= select ", "i32 2147483647", "i32 0"),
            replace_in_lines("= fcmp oge ", "0x41E0000000000000", "0x7FF0000000000000"))},
      {"f16 read as bf16",
       replace_in_lines("x half> ", "(%[^ ]+) = fpext <([0-9]+) x half> (%[^ ]+) to .*",
                        "$1.i = bitcast <$2 x half> $3 to <$2 x i16>\n"
                        "  $1.z = zext <$2 x i16> $1.i to <$2 x i32>\n"
                        "  $1.s = shl <$2 x i32> $1.z, splat (i32 16)\n"
                        "  $1 = bitcast <$2 x i32> $1.s to <$2 x float>")},
  };
}

std::vector<PlantedFault> structure_faults() {
  return {
      {"lanes fold in another order", fold_neighbours_first},
      {"maximum starts at 0",
       replace_in_lines("store <", "0xFFF0000000000000", "0x0000000000000000")},
      {"store ignores its predicate",
       replace_in_lines("%old", "(= select <[0-9]+ x i1>) %[^,]+, (.*%old)",
                        "$1 splat (i1 true), $2")},
      {"last odd element is left out",
       replace_in_lines("%tail = and", "%tail = (.*)",
                        "%tail.odd = $1\n  %tail = and i64 %tail.odd, -2")},
      {"absent tensors take part",
       replace_in_lines("= icmp", "icmp ne i64 %present, 0", "icmp eq i64 0, 0")},
      {"guard is the wrong way round",
       replace_text("label %guarded, label %guarded.else", "label %guarded.else, label %guarded")},
      {"every tensor has group 0",
       replace_in_lines("= zext", "zext i32 %group\\.[0-9]+", "zext i32 0")},
      {"elements count from the shard's first",
       replace_in_lines("%position = add", "%offset[^,]*,", "0,")},
      {"step values of the phase before are read",
       within(
           "define void @sf_enter_1", "\n}\n",
           replace_in_lines("store ", "store (i8|i32|float|i64|double) %.*", "; not published"))},
      {"tensors share their scratch",
       replace_in_lines("= load", "= load i64, ptr %scratch_base.*", "= add i64 0, 0"),
       Form::unfused},
  };
}

// Faults in the functions that prepare reductions of group and tensor values.
std::vector<PlantedFault> rollup_faults() {
  auto in_rollup = [](TextEdit edit) {
    return within("define void @sf_rollup", "\n}\n", std::move(edit));
  };
  return {
      {"absent tensors count as present in a rollup",
       in_rollup(replace_in_lines("= icmp", "icmp ne i32 %present, 0", "icmp eq i32 0, 0"))},
      {"a rollup takes every tensor for one of group 0",
       in_rollup(replace_in_lines(" = zext", "%group(\\S*) = zext i32 \\S+ to",
                                  "%group$1 = zext i32 0 to"))},
      {"a rollup knows the first tensor only",
       in_rollup(replace_in_lines("%more", "(icmp ult i64 [^,]+), %tensor_count[.0-9]*", "$1, 1"))},
      {"a rollup's operands all go to the first member",
       in_rollup(replace_in_lines("%slot", "i64 %(tensor|group)[.0-9]*$", "i64 0"))},
  };
}

}  // namespace

std::vector<PlantedFault> llvm_faults() {
  std::vector<PlantedFault> all = arithmetic_faults();
  for (auto& list : {conversion_faults(), structure_faults(), rollup_faults()}) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

}  // namespace stepfuse::testing
