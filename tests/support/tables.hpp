// The runtime's own tables for the interpreter's data. Knows the variant and the tables.
#pragma once

#include "compiler/variant.hpp"
#include "ir/semantics/step_data.hpp"
#include "runtime/tables/tables.hpp"

namespace stepfuse::testing {

// Without pointers, which are to be bound. Signatures are numbered as the variant does.
inline StepTables tables_of(const Variant& variant, const StepData& data) {
  StepTables tables;
  tables.buffer_count = variant.program.buffers.size();
  tables.signatures = variant.signatures;
  tables.describe(variant.program);
  for (const StepTensor& t : data.tensors) {
    uint32_t flags = t.present ? abi::kPresent : 0U;
    tables.add({.group = static_cast<uint32_t>(t.group),
                .flags = flags,
                .size = t.size,
                .offset = t.offset,
                .full_size = t.element_count(),
                .columns = t.column_count(),
                .scratch_base = 0,
                .id = t.id,
                .reserved = 0},
               t.dtypes);
  }
  tables.finish(static_cast<uint32_t>(data.group_count));
  return tables;
}

inline std::vector<uint64_t> arg_words(const Variant& variant, const StepData& data) {
  const ArgLayout& layout = variant.plan.args;
  auto groups = static_cast<size_t>(data.group_count);
  std::vector<uint64_t> words(layout.words(groups, data.tensors.size()));
  for (size_t a = 0; a < data.args.size(); ++a) {
    for (size_t m = 0; m < data.args[a].size(); ++m) {
      words[layout.word(a, m, groups)] = data.args[a][m].raw;
    }
  }
  return words;
}

}  // namespace stepfuse::testing
