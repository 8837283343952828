// The three ways to cut a step into kernels. Knows only std.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#pragma GCC visibility push(default)
namespace stepfuse {

// fused: one kernel, a barrier between phases. split: one kernel per phase. unfused: one kernel per
// classic stage, values that cross stages kept in scratch arrays. All three compute the same bits.
enum class Form : uint8_t { fused, split, unfused };
std::string_view name(Form form);
std::optional<Form> form_from_name(std::string_view text);

}  // namespace stepfuse
#pragma GCC visibility pop
