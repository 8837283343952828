// Parses and prints the CUDA emitter's options. Knows the error type and fmt.
#include "compiler/cuda/options.hpp"

#include <iterator>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/error.hpp>

#include "ir/text/words.hpp"

namespace stepfuse {
namespace {

struct Choice {
  std::string_view word;
  int value;
};

struct Row {
  std::string_view name;
  std::vector<Choice> choices;
  int (*get)(const CudaOptions&);
  void (*set)(CudaOptions&, int);
};

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"min-blocks",
       {{"1", 1}, {"2", 2}, {"3", 3}, {"4", 4}},
       [](const CudaOptions& o) { return o.min_blocks; },
       [](CudaOptions& o, int v) { o.min_blocks = v; }},
      {"unroll",
       {{"1", 1}, {"2", 2}},
       [](const CudaOptions& o) { return o.unroll; },
       [](CudaOptions& o, int v) { o.unroll = v; }},
      {"cache",
       {{"normal", 0}, {"streaming", 1}, {"evict-first", 2}},
       [](const CudaOptions& o) { return static_cast<int>(o.cache); },
       [](CudaOptions& o, int v) { o.cache = static_cast<CudaCache>(v); }},
      {"access",
       {{"128", 128}, {"256", 256}},
       [](const CudaOptions& o) { return o.access; },
       [](CudaOptions& o, int v) { o.access = v; }},
      {"reverse",
       {{"on", 1}, {"off", 0}},
       [](const CudaOptions& o) { return o.reverse ? 1 : 0; },
       [](CudaOptions& o, int v) { o.reverse = v != 0; }},
  };
  return table;
}

std::string known_names() {
  std::vector<std::string> all;
  for (const Row& row : rows()) {
    std::vector<std::string_view> words;
    for (const Choice& c : row.choices) words.push_back(c.word);
    all.push_back(fmt::format("{}={}", row.name, fmt::join(words, "|")));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

void apply(CudaOptions& options, std::string_view setting) {
  size_t equals = setting.find('=');
  std::string_view name = setting.substr(0, equals);
  std::string_view word = equals == setting.npos ? std::string_view() : setting.substr(equals + 1);
  for (const Row& row : rows()) {
    if (row.name != name) continue;
    for (const Choice& c : row.choices) {
      if (c.word == word) return row.set(options, c.value);
    }
  }
  throw Error(ErrorKind::usage,
              fmt::format("CUDA option '{}' is not one of {}", setting, known_names()));
}

}  // namespace

std::string print(const CudaOptions& options) {
  std::vector<std::string> parts;
  for (const Row& row : rows()) {
    for (const Choice& c : row.choices) {
      if (c.value == row.get(options)) parts.push_back(fmt::format("{}={}", row.name, c.word));
    }
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

CudaOptions with_options(CudaOptions base, std::string_view text) {
  for (std::string_view setting : split(text, ",")) apply(base, setting);
  return base;
}

void check(const CudaOptions& options) {
  if (options.access == 256 && options.arch < 100) {
    throw Error(ErrorKind::usage,
                fmt::format("CUDA option access=256: sm_{} has no accesses of 256 bits, sm_100 "
                            "and later have",
                            options.arch));
  }
  if (options.cache == CudaCache::evict_first && options.arch < 80) {
    throw Error(ErrorKind::usage,
                fmt::format("CUDA option cache=evict-first: sm_{} has no cache policies, sm_80 and "
                            "later have",
                            options.arch));
  }
}

}  // namespace stepfuse
