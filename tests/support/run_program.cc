#include "tests/support/run_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

ProgramRun RunProgram(const std::vector<std::string>& words) {
  const ShortFolder folder;
  const std::string out = folder.path() + "/out";
  const std::string err = folder.path() + "/err";
  constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY,
                                   0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), kWrite,
                                   0600);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err.c_str(), kWrite,
                                   0600);
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, arguments[0], &files, nullptr,
                                 arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return {.err = words[0] + ": not started"};
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  ProgramRun run = {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                    .out = TextOf(out),
                    .err = TextOf(err)};
  // A report of a sanitizer is shown, whatever the caller looks at.
  if (absl::StrContains(run.err, "Sanitizer: "))
    ADD_FAILURE() << absl::StrJoin(words, " ") << ":\n" << run.err;
  return run;
}

}  // namespace kiln
