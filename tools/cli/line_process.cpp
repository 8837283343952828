// Starts the process with two pipes. Knows POSIX.
#include "tools/cli/line_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

extern char** environ;

namespace stepfuse::cli {

LineProcess::LineProcess(const std::vector<std::string>& words) : name_(words[0]) {
  // Writing to an ended process should give an error, not a signal that kills us.
  std::signal(SIGPIPE, SIG_IGN);
  int in[2];
  int out[2];
  if (pipe2(in, O_CLOEXEC) != 0)
    throw Error(ErrorKind::device, fmt::format("cannot create a pipe: {}", std::strerror(errno)));
  if (pipe2(out, O_CLOEXEC) != 0) {
    close(in[0]);
    close(in[1]);
    throw Error(ErrorKind::device, fmt::format("cannot create a pipe: {}", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  std::vector<char*> arguments;
  for (const std::string& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
  arguments.push_back(nullptr);
  int error = posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  to_ = fdopen(in[1], "w");
  from_ = fdopen(out[0], "r");
  if (error != 0) {
    std::fclose(to_);
    std::fclose(from_);
    throw Error(ErrorKind::device,
                fmt::format("'{}' cannot be started: {}", name_, std::strerror(error)));
  }
}

LineProcess::~LineProcess() {
  std::fclose(to_);
  std::fclose(from_);
  waitpid(pid_, nullptr, 0);
}

std::string LineProcess::ask(const std::string& line) {
  bool sent =
      std::fputs(line.c_str(), to_) >= 0 && std::fputc('\n', to_) != EOF && std::fflush(to_) == 0;
  char* text = nullptr;
  size_t room = 0;
  ssize_t size = sent ? getline(&text, &room, from_) : -1;
  std::string answer = size > 0 ? std::string(text, static_cast<size_t>(size)) : "";
  std::free(text);
  if (answer.empty())
    throw Error(ErrorKind::device, fmt::format("'{}' ended before it answered", name_));
  return answer;
}

}  // namespace stepfuse::cli
