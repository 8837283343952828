// What was once learned of a library by opening it, kept in the disk cache: a warm process then need
// not open it. Knows the disk cache and the file system.
#pragma once

#include <optional>
#include <string>

namespace stepfuse {

// Size, time and number of a file; empty if there is none.
std::string file_identity(const std::string& path);

// What the dynamic loader's own search depends on.
std::string describe_loader_search();

// `question` names what was asked and everything that decides which file answers it. Nothing if the
// answer is not known, or the file is another one by now.
std::optional<std::string> recall_answer(const std::string& question);
void remember_answer(const std::string& question, const std::string& file,
                     const std::string& answer);
void forget_answer(const std::string& question);

}  // namespace stepfuse
