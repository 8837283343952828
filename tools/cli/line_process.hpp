// A process that answers each line with a line. Knows POSIX.
#pragma once

#include <cstdio>
#include <string>
#include <sys/types.h>
#include <vector>

namespace stepfuse::cli {

class LineProcess {
 public:
  // Looks for words[0] in the PATH. Throws Error{device}, and so does ask() if the process has
  // ended.
  explicit LineProcess(const std::vector<std::string>& words);
  ~LineProcess();  // closes its input and waits until it ends
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  std::string ask(const std::string& line);

 private:
  std::string name_;
  pid_t pid_ = -1;
  FILE* to_ = nullptr;
  FILE* from_ = nullptr;
};

}  // namespace stepfuse::cli
