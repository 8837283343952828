// Reads and writes whole files, with errors that name the reason. Knows the file system.
#pragma once

#include <string>
#include <string_view>

#include <stepfuse/error.hpp>

namespace stepfuse {

// "-" is standard input. Throws Error{usage} with the file and the reason.
std::string read_text_file(const std::string& path);

// Writes any bytes. A file appears whole or not at all and keeps its mode. A link is followed;
// pipes and devices are written directly. Throws Error{usage} with the file and the reason; the old
// content then remains.
void write_file(const std::string& path, std::string_view bytes);

// Throws what write_file() would throw about the name, and writes nothing: for a check before long work.
void check_writable(const std::string& path);

// Writes a file that the user has named by `write`. The library reports one that cannot be written as Error{device};
// here it is a mistake of the user, thus Error{usage}.
template <class Write>
void write_named(const Write& write) {
  try {
    write();
  } catch (const Error& e) {
    throw Error(e.kind() == ErrorKind::device ? ErrorKind::usage : e.kind(), e.what());
  }
}

}  // namespace stepfuse
