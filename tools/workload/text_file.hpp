// Reads and writes whole files, and says what went wrong. Knows the file system.
#pragma once

#include <string>
#include <string_view>

namespace stepfuse {

// "-" is standard input. Throws Error{usage} naming the file and the reason.
std::string read_text_file(const std::string& path);

// Any bytes. Throws Error{usage} naming the file and the reason; a file that was there is then
// perhaps cut short.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace stepfuse
