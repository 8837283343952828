// Damaged texts of steps and formats give a clear error with its position, or a program that
// prints, optimises, can be scheduled in every form and written by every emitter. Knows ir, the
// compiler and LLVM's front end.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/format.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>
#include <stepfuse/recipes.hpp>

#include "compiler/c/emit.hpp"
#include "compiler/cuda/emit.hpp"
#include "compiler/llvm/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "ir/text/text_format.hpp"
#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/source_dir.hpp"
#include "tests/support/random_program.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

std::vector<std::string> sample_texts(const std::string& folder, std::string_view extension) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(STEPFUSE_SOURCE_DIR + folder)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());  // a seed gives the same case on every machine
  std::vector<std::string> texts;
  for (const auto& file : files) {
    std::ifstream in(file);
    texts.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return texts;
}

// Replaces words by others of their kind (%names, @names, numbers, the rest) and removes lines. The
// results are valid steps more often than damaged bytes are.
std::string with_words_exchanged(std::string text, Rng& rng) {
  constexpr std::string_view kEnds = " \n,:=[]<>{}|";
  auto kind = [](char c) { return c == '%' || c == '@' ? c : c >= '0' && c <= '9' ? '0' : 'a'; };
  std::vector<std::pair<size_t, size_t>> words;
  for (size_t at = text.find_first_not_of(kEnds); at != std::string::npos;) {
    size_t end = std::min(text.find_first_of(kEnds, at), text.size());
    words.emplace_back(at, end - at);
    at = text.find_first_not_of(kEnds, end);
  }
  if (rng.chance(20)) {
    size_t begin = text.rfind('\n', rng.below(text.size()));
    if (begin == std::string::npos) begin = 0;
    return text.erase(begin, text.find('\n', begin + 1) - begin);
  }
  auto [to, old] = rng.pick(words);
  for (int tries = 0; tries < 100; ++tries) {
    auto [from, length] = rng.pick(words);
    if (kind(text[from]) != kind(text[to])) continue;
    return text.replace(to, old, text.substr(from, length));
  }
  return text;
}

void emit_all(const Program& program, Rng& rng) {
  Signature signature;
  for (const Buffer& b : program.buffers) signature.push_back(b.dtypes.first());
  std::vector<Signature> signatures = {signature};
  Program optimized = optimize(program, signatures);
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    Variant s = make_variant(optimized, signatures, form);
    CHECK(!emit_cuda(s.plan).empty());
    CHECK(!emit_c(s.plan).empty());
    CpuTarget target = cpu_target("x86-64");
    std::string text = emit_llvm(s.plan, target);
    if (llvm_status().available && rng.chance(2)) CHECK(!compile_cpu(text, target).bytes.empty());
  }
}

// An error about the text names its position.
void check_place(const Error& e, std::string_view file) {
  std::string message = e.what();
  CHECK(message.starts_with(file));
  CHECK(message.find('\x1b') == std::string::npos);
}

}  // namespace

TEST_CASE("fuzz: texts of steps, through every emitter") {
  const std::vector<std::string> samples = sample_texts("/samples/steps", ".sf");
  REQUIRE(samples.size() > 5);
  uint64_t accepted = 0;
  uint64_t tried = fuzz(3000, [&](Rng& rng) {
    std::string text = rng.chance(50) ? rng.pick(samples) : print(random_program(rng.next()));
    text = rng.chance(60) ? with_words_exchanged(text, rng) : damaged(text, rng);
    CAPTURE(text);
    Program program;
    try {
      program = parse(text, "f.sf");
    } catch (const Error& e) {
      return check_place(e, "f.sf:");
    }
    ++accepted;
    CHECK(parse(print(program)) == program);
    CHECK(parse(format_step(text, "f.sf")) == program);
    emit_all(program, rng);
  });
  MESSAGE(accepted << " texts were still steps");
  if (std::getenv("STEPFUSE_SEEDS") == nullptr) CHECK(accepted > tried / 30);
}

TEST_CASE("fuzz: texts of formats, in a step through every emitter") {
  const std::vector<std::string> samples = sample_texts("/ir/formats", ".fmt");
  REQUIRE(samples.size() > 3);
  const Program step = make_recipe("lion", {});
  uint64_t accepted = 0;
  uint64_t tried = fuzz(1000, [&](Rng& rng) {
    std::string text = rng.pick(samples);
    text = rng.chance(60) ? with_words_exchanged(text, rng) : damaged(text, rng);
    CAPTURE(text);
    Format format;
    try {
      format = parse_format(text, "mine");
    } catch (const Error& e) {
      // An error about the pair has no position.
      bool of_pair = std::string_view(e.what()).starts_with("format mine: ");
      return check_place(e, of_pair ? "format mine: " : "mine:");
    }
    ++accepted;
    for (const Program* p : {&format.encode, &format.decode}) CHECK(parse(print(*p)) == *p);
    emit_all(with_format(step, "exp_avg", format), rng);
  });
  MESSAGE(accepted << " texts were still formats");
  if (std::getenv("STEPFUSE_SEEDS") == nullptr) CHECK(accepted > tried / 30);
}
