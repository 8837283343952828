// Formats: how a buffer's values are kept in several arrays. Knows ir only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/program.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// A pair of steps. `encode` loads @x : f32 and stores every part; `decode` loads the parts and stores
// @x : f32. Parts of zeros decode to zeros.
struct Format {
  std::string name;
  Program encode, decode;
};

// The text of both steps, @encode first, whose tables are @decode's too. Throws Error{parse | verify} with
// the place, also where the two are no pair.
Format parse_format(std::string_view text, std::string_view name);

// Those of moments.
std::vector<std::string_view> list_formats();
// One that the library has, also of those that options --master and --copy-scale name. Throws
// Error{usage} naming all.
Format built_in_format(std::string_view name);

// The step with the buffer kept in the format: part @code of buffer @m in format fp8 is the buffer
// @m.fp8.code, a load of @m decodes, a store encodes, and a buffer that begins as zeros has parts
// that do. The buffer may be stored as f32, is no other's initial value, and is not stored under a
// condition that each element has for itself. Throws Error{usage} otherwise. Tensors of fewer than
// `from` elements, of a shard the full tensor's, keep the buffer itself, in f32: it is `below` that
// many, and the parts `from` there on.
Program with_format(const Program& program, std::string_view buffer, const Format& format,
                    uint64_t from = 0);

// The same with a buffer that is kept as one of fewer bits, the first part, and what that lacks,
// which begins as zeros where it is ever read. The parts have the names that the format gives them,
// and what begins as a copy of the buffer does so of the first part.
Program with_lower_bits(const Program& program, std::string_view buffer, const Format& format);

// A step that has @from, kept in one form, and makes @to, the same values in another. A form is a format
// that the library has, or a storage type that floats are kept in.
Program conversion(std::string_view from, std::string_view to);

}  // namespace stepfuse
#pragma GCC visibility pop
