// Reads and writes whole files, and says what went wrong. Knows the file system.
#pragma once

#include <string>
#include <string_view>

namespace stepfuse {

// "-" is standard input. Throws Error{usage} naming the file and the reason.
std::string read_text_file(const std::string& path);

// Any bytes. A file appears whole or not at all, keeps the mode that it has, and is written through a link; a
// pipe or a device is written to. Throws Error{usage} naming the file and the reason; what was there stays.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace stepfuse
