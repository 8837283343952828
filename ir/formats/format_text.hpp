// The text of a format with its parameters chosen: types and rules that several formats differ in. Knows ir only.
//
//   type T = f8e4m3 | f8e5m2      every word T is the type, T.max its largest number, T.emax the exponent of that
//   choice round = floor | rceil
//   when round = rceil            the lines up to the next `when` or `end` are left out of other choices
//   end
//
// The first value of each parameter is its default. A format's name has the others behind its file's name: mx_rceil.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/types.hpp>

namespace stepfuse {

struct FormatParameter {
  std::string_view name;
  bool is_type = false;
  std::vector<std::string_view> values;
};

// The lines `type` and `choice` at the beginning of the text. Throws Error{parse} with the place.
std::vector<FormatParameter> format_parameters(std::string_view text, std::string_view file);

// The types among which that of a built-in copy may be chosen; none if its codes have only one meaning, as in nvfp4.
DTypeSet copy_types(std::string_view name);

// The steps of the text with these values of its parameters, on the same lines; the others have their defaults.
// A value that no parameter has throws Error{usage}.
std::string choose(std::string_view text, std::string_view file,
                   std::span<const std::string_view> values);

}  // namespace stepfuse
