// Keeps facts about a library in the disk cache, so that a later process need not open the library. Knows
// the disk cache and the file system.
#pragma once

#include <optional>
#include <string>

namespace stepfuse {

// Returns size, time and inode number of a file, or "" if there is no such file.
std::string file_identity(const std::string& path);

// Describes everything that the dynamic loader's search depends on.
std::string describe_loader_search();

// `question` names what was asked and everything that decides which file answers it. Returns nothing if
// the answer is not known or the file has changed since.
std::optional<std::string> recall_answer(const std::string& question);
void remember_answer(const std::string& question, const std::string& file,
                     const std::string& answer);
void forget_answer(const std::string& question);

}  // namespace stepfuse
