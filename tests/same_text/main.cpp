// Prints a digest of every kernel text over the covering set of recipe options, so that two builds can
// be compared (tools/same_text.py). Knows the compiler, the recipes, and LLVM where objects are asked for.
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stepfuse/error.hpp>

#include "compiler/c/emit.hpp"
#include "compiler/cuda/emit.hpp"
#include "compiler/llvm/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/support/golden_cases.hpp"
#include "tests/support/pairwise.hpp"
#include "tests/support/recipe_options.hpp"
#include "tools/workload/text_file.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

struct Wish {
  bool objects = false;           // LLVM's objects in place of its text
  std::filesystem::path texts{};  // a folder that gets each text as a file; empty: none
  std::string only{};             // cases whose names contain it
};

// Processors without vectors of masks, with AVX2, and with AVX-512. They are spelled out so that the
// texts do not depend on the machine.
struct Processor {
  const char* name;
  CpuTarget target;
};
const std::vector<Processor> kProcessors = {
    {"llvm-sse2", {.cpu = "x86-64", .features = "", .vector_bits = 128}},
    {"llvm-avx2", {.cpu = "x86-64-v3", .features = "+avx2,+bmi2,+f16c,+fma", .vector_bits = 256}},
    {"llvm-avx512",
     {.cpu = "x86-64-v4",
      .features = "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,+f16c,+fma",
      .vector_bits = 512}},
};

// Every target's text of one plan, by the target's name. A refusal is a text too.
std::vector<std::pair<std::string, std::string>> texts_of(const KernelPlan& plan,
                                                          const Wish& wish) {
  std::vector<std::pair<std::string, std::string>> texts;
  auto add = [&](std::string name, auto&& emit) {
    std::string text;
    try {
      text = emit();
    } catch (const Error& e) {
      text = fmt::format("refused: {}", e.what());
    }
    texts.emplace_back(std::move(name), std::move(text));
  };
  if (!wish.objects) {
    add("plan", [&] { return print(plan); });
    add("c", [&] { return emit_c(plan); });
    for (int arch : {80, 100}) {
      add(fmt::format("cuda-sm_{}", arch),
          [&] { return emit_cuda(plan, {.arch = arch, .access = arch >= 100 ? 256 : 128}); });
    }
  }
  for (const Processor& p : kProcessors) {
    add(p.name, [&] {
      std::string text = emit_llvm(plan, p.target);
      return wish.objects ? compile_cpu(text, p.target).bytes : text;
    });
  }
  return texts;
}

std::string digest(std::string_view text) {
  XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

struct Case {
  std::string name;
  Program program;
  std::vector<Signature> signatures;
};

// One line for each form and target: "<digest> <case> <form> <target>".
std::vector<std::string> lines_of(const Case& c, const Wish& wish) {
  std::vector<std::string> lines;
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    std::string at = fmt::format("{} {}", c.name, name(form));
    try {
      Variant v = make_variant(optimize(c.program, c.signatures), c.signatures, form);
      for (const auto& [target, text] : texts_of(v.plan, wish)) {
        lines.push_back(fmt::format("{} {} {}", digest(text), at, target));
        if (wish.texts.empty()) continue;
        write_file((wish.texts / fmt::format("{}.{}.{}", c.name, name(form), target)).string(),
                   text);
      }
    } catch (const Error& e) {
      lines.push_back(fmt::format("{} {} refused", digest(e.what()), at));
    }
  }
  return lines;
}

std::vector<DType> grads_of(const Point& point) {
  std::vector<DType> types;
  for (DType t : kFloatStorage) {
    if (fmt::format("|{}|", point.at("grad")).find(fmt::format("|{}|", name(t))) !=
        std::string::npos)
      types.push_back(t);
  }
  return types;
}

// The cases that hold every op and every granularity, then all rows of the covering set.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (GoldenCase& c : golden_cases()) {
    cases.push_back({"golden-" + c.name, std::move(c.program), std::move(c.signatures)});
  }
  std::vector<Factor> factors = recipe_option_factors();
  auto is_valid = [&](const Row& row) {
    try {
      program_of(point_of(factors, row));
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  CoveringSet set = pairwise_covering_set(factors, is_valid, 1);
  for (size_t k = 0; k < set.rows.size(); ++k) {
    Point point = point_of(factors, set.rows[k]);
    Program program = program_of(point);
    std::vector<Signature> signatures = signatures_of(program, grads_of(point));
    // The row's number changes with the table of options, so the case is known by its digest.
    cases.push_back({digest(describe(point)).substr(0, 8), std::move(program), signatures});
    if (std::getenv("STEPFUSE_SAME_TEXT_ROWS") != nullptr) {
      fmt::print(stderr, "{} {}\n", cases.back().name, describe(point));
    }
  }
  return cases;
}

constexpr const char* kUsage =
    "same_text [--objects] [--texts DIR] [--only TEXT]\n"
    "  prints \"<digest> <case> <form> <target>\" for the plan and the C, CUDA and LLVM text of "
    "every\n"
    "  row of the covering set. STEPFUSE_SAME_TEXT_ROWS=1 prints each row's options to stderr.\n"
    "  --objects    LLVM's objects instead of the texts\n"
    "  --texts DIR  also writes each of them as a file, DIR/<case>.<form>.<target>\n"
    "  --only TEXT  leaves out cases whose names do not contain TEXT, as in golden-adamw\n";

}  // namespace

int main(int argc, char** argv) {
  Wish wish;
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--objects") {
      wish.objects = true;
    } else if (word == "--texts" && i + 1 < argc) {
      wish.texts = argv[++i];
    } else if (word == "--only" && i + 1 < argc) {
      wish.only = argv[++i];
    } else {
      std::fputs(kUsage, word == "--help" ? stdout : stderr);
      return word == "--help" ? 0 : 2;
    }
  }
  if (!wish.texts.empty()) std::filesystem::create_directories(wish.texts);
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [&](const Case& c) { return c.name.find(wish.only) == std::string::npos; });
  std::map<size_t, std::vector<std::string>> lines;
  std::mutex mutex;
  std::vector<std::string> faults = faults_of(cases.size(), [&](size_t k) -> std::string {
    std::vector<std::string> found = lines_of(cases[k], wish);
    std::lock_guard lock(mutex);
    lines[k] = std::move(found);
    return "";
  });
  for (const auto& [k, found] : lines) {
    for (const std::string& line : found) fmt::print("{}\n", line);
  }
  for (const std::string& fault : faults) fmt::print(stderr, "{}\n", fault);
  return faults.empty() ? 0 : 1;
}
