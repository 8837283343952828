// Parses the names of a checkpoint's arrays. Knows the files.
#pragma once

#include <string_view>

#include "runtime/files/safetensors.hpp"

namespace stepfuse {

// The parts of "buffer.exp_avg.fp8.code.3". All parts are empty if the array belongs to no buffer.
struct BufferName {
  std::string_view moment;  // exp_avg
  std::string_view form;    // fp8; empty if the array holds the moment itself
  std::string_view tensor;  // 3
};

inline BufferName buffer_name(std::string_view array) {
  constexpr std::string_view kBuffer = "buffer.";
  if (!array.starts_with(kBuffer)) return {};
  array.remove_prefix(kBuffer.size());
  size_t last = array.rfind('.');
  if (last == std::string_view::npos) return {};
  std::string_view owner = array.substr(0, last);
  BufferName name{
      .moment = owner.substr(0, owner.find('.')), .form = {}, .tensor = array.substr(last + 1)};
  std::string_view rest = owner.substr(name.moment.size());
  if (!rest.empty()) name.form = rest.substr(1, rest.find('.', 1) - 1);
  return name;
}

// Throws Error{usage} if the file is not a checkpoint, or has a different version.
void check_is_checkpoint(const TensorReader& file);

}  // namespace stepfuse
