// What the names in a checkpoint say, for those who read one. Knows the files.
#pragma once

#include <string_view>

#include "runtime/files/safetensors.hpp"

namespace stepfuse {

// "buffer.exp_avg.fp8.code.3" taken apart; all is empty of an array that is no buffer's.
struct BufferName {
  std::string_view moment;  // exp_avg
  std::string_view form;    // fp8; empty where the array is the moment itself
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

// Throws Error{usage} where the file is none, or of another version.
void check_is_checkpoint(const TensorReader& file);

}  // namespace stepfuse
