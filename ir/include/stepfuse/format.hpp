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

// A pair of steps. `encode` loads @x : f32, stores every part once, and may write states. `decode` loads the parts,
// may read these states, and stores @x : f32. Parts of zeros decode to zeros. A part has a value per element, per block, or
// per square of rows and columns; a state one per tensor. Only @encode reduces beyond blocks, and draws random numbers:
// from its arguments `arg %seed : i64` and `arg %count : <i64>`.
struct Format {
  std::string name;
  Program encode, decode;
};

// The text of both steps, @encode first, whose tables are @decode's too. `values` choose among the parameters that the text
// begins with (docs/formats.md); others have their first value. Throws Error{parse | verify} with the place, also if the
// two are no pair, and Error{usage} for a value that no parameter has.
Format parse_format(std::string_view text, std::string_view name,
                    std::span<const std::string_view> values = {});

// The built-in formats of moments, with a name for each combination of parameters: "int8", "int8_f16".
std::vector<std::string_view> list_formats();
// Those of 8-bit copies, as option --copy-scale names them: "mx", "mx-rceil". Their type is the copy's.
std::vector<std::string_view> list_copy_formats();
// One that the library has, also one of masters and copies, with '-' or '_' between words; `type` is the value of its parameter for types. Throws Error{usage}
// naming all.
Format built_in_format(std::string_view name, std::optional<DType> type = {});

// The values of a step that %seed and %count stand for. Random numbers follow from them.
struct RandomInputs {
  ValueId seed = kNoValue, count = kNoValue;
};

// The step with the buffer kept in the format: part @code of buffer @m in format fp8 is the buffer
// @m.fp8.code, and so is a state. A load of @m decodes, a store encodes, and a buffer that begins as zeros has parts
// that do. The buffer may be stored as f32, is no other's initial value, and is not stored under a
// condition that each element has for itself. A buffer that is loaded and stored has no parts per square, which one chunk
// would store while another decodes with them. Throws Error{usage} otherwise. Tensors of fewer than
// `from` elements, of a shard the full tensor's, keep the buffer itself, in f32: it is `below` that
// many, and the parts `from` there on.
Program with_format(const Program& program, std::string_view buffer, const Format& format,
                    uint64_t from = 0);

// The same with a buffer that is kept as one of fewer bits, the first part, and what that lacks,
// which begins as zeros if it is ever read. Parts and states have the names that the format gives them,
// and what begins as a copy of the buffer does so of the first part.
Program with_lower_bits(const Program& program, std::string_view buffer, const Format& format,
                        RandomInputs random = {});

// Returns a step that reads @from, stored in one form, and writes @to, the same values in a different form.
// A form is a built-in format or a float storage type.
Program conversion(std::string_view from, std::string_view to);

}  // namespace stepfuse
#pragma GCC visibility pop
