// Formats: buffers whose values are stored in several arrays. Knows ir only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/program.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// A pair of steps. `encode` loads @x : f32, stores every part once, and may write states. `decode` loads the
// parts, may read these states, and stores @x : f32. Parts of zeros decode to zeros. A part has a value per
// element, per block or per square; a state has one per tensor. Only `encode` reduces beyond blocks and draws
// random numbers, from its arguments `arg %seed : i64` and `arg %count : <i64>`.
struct Format {
  std::string name;
  Program encode, decode;
};

// Parses the text of both steps, @encode first; @decode uses the same tables. `values` choose among the
// parameters that the text begins with (docs/formats.md); a parameter that none of them names has its first
// value. Throws Error{parse | verify} with the place, also if the two steps do not match, and Error{usage} for
// a value that no parameter has.
Format parse_format(std::string_view text, std::string_view name,
                    std::span<const std::string_view> values = {});

// Returns the built-in formats of moments, with a name for each combination of parameters: "int8", "int8_f16".
std::vector<std::string_view> list_formats();
// Returns the formats of 8-bit copies, as option --copy-scale names them: "mx", "mx-rceil". Their element type
// is the copy's.
std::vector<std::string_view> list_copy_formats();
// Returns a built-in format, including those of masters and copies. Its name may have '-' or '_' between words.
// `type` is the value of the format's parameter for types. Throws Error{usage} with the list of names.
Format built_in_format(std::string_view name, std::optional<DType> type = {});

// The values of a step from which the random numbers of a format follow, in place of %seed and %count.
struct RandomInputs {
  ValueId seed = kNoValue, count = kNoValue;
};

// Returns the step with the buffer stored in the format. Part @code of buffer @m in format fp8 becomes the
// buffer @m.fp8.code; states are named alike. A load of @m decodes and a store encodes. If @m begins as zeros,
// so do its parts. Tensors of fewer than `from` elements, counted in the full tensor for a shard, keep @m
// itself, in f32. Throws Error{usage} in four cases: @m is not f32; it is the initial value of another buffer;
// it is stored under a per-element condition; it is loaded and stored, and the format has a part per square,
// which one chunk would store while another decodes with it.
Program with_format(const Program& program, std::string_view buffer, const Format& format,
                    uint64_t from = 0);

// Returns the step with the buffer split into its first part, a narrower buffer of the same name, and parts
// with the missing bits, which begin as zeros if they are ever read. Parts and states have the names that the
// format gives them. A buffer that began as a copy of @buffer begins as a copy of the first part.
Program with_lower_bits(const Program& program, std::string_view buffer, const Format& format,
                        RandomInputs random = {});

// Returns a step that reads @from, stored in one form, and writes @to, the same values in a different form.
// A form is a built-in format or a float storage type.
Program conversion(std::string_view from, std::string_view to);

}  // namespace stepfuse
#pragma GCC visibility pop
