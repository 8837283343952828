// Files that appear whole or not at all: killed writers, and names of any length. Knows NewFile.
#include "runtime/files/new_file.hpp"

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "tests/support/file_faults.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("a killed writer leaves nothing") {
  ScratchFolder folder;
  int fd = ::open(folder.path().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
  if (fd < 0) {
    MESSAGE("skipped: on this file system every file has a name");
    return;
  }
  ::close(fd);
  std::string path = folder.path() / "file";
  write_bytes(path, "old");
  pid_t child = ::fork();
  if (child == 0) {
    NewFile file(path);
    file.write("new", 3);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(read_bytes(path) == "old");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a name may have as many bytes as the file system allows") {
  ScratchFolder folder;
  std::string longest(255, 'n');
  for (std::string_view content : {"old", "new"}) {
    replace_file(folder.path() / longest, content);
    CHECK(read_bytes(folder.path() / longest) == content);
    CHECK(entries(folder.path()) == 1);
  }
  // A name that is too long is refused before anything is written.
  CHECK(has(message_of(ErrorKind::device, [&] { NewFile(folder.path() / (longest + 'n')); }),
            "File name too long"));
}

TEST_CASE("a file may have a name in the current folder") {
  ScratchFolder folder;
  std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  replace_file("file", "text");
  std::filesystem::current_path(before);
  CHECK(read_bytes(folder.path() / "file") == "text");
}
