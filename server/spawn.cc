#include "server/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The actions between fork and exec, in order. Owns what posix_spawn wants to
// have initialized and destroyed.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  // 0 or an errno.
  int Fill(const SpawnOptions& options) {
    int bad = 0;
    const auto first = [&bad](int error) {
      if (bad == 0) bad = error;
    };
    // dup2 to the same number would keep close-on-exec; posix_spawn clears it.
    first(posix_spawn_file_actions_adddup2(&actions_, options.socket_fd,
                                           kChildSocketFd));
    first(posix_spawn_file_actions_addclosefrom_np(&actions_,
                                                   kChildSocketFd + 1));
    first(posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY,
                                           0));
    first(posix_spawn_file_actions_addopen(
        &actions_, 1, options.output_file.c_str(),
        O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600));
    first(posix_spawn_file_actions_adddup2(&actions_, 1, 2));
    first(posix_spawn_file_actions_addchdir_np(&actions_,
                                               options.folder.c_str()));
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    first(posix_spawnattr_setsigmask(&attributes_, &none));
    first(posix_spawnattr_setsigdefault(&attributes_, &all));
    first(posix_spawnattr_setpgroup(&attributes_, 0));
    first(posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK |
                                                     POSIX_SPAWN_SETSIGDEF |
                                                     POSIX_SPAWN_SETPGROUP));
    return bad;
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// The list that exec wants: pointers into `strings`, closed by a null.
std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<pid_t> Spawn(const SpawnOptions& options) {
  SpawnPlan plan;
  std::vector<std::string> args = {options.program};
  args.insert(args.end(), options.args.begin(), options.args.end());
  std::vector<std::string> env = options.env;
  pid_t pid = 0;
  int error = plan.Fill(options);
  if (error == 0) {
    error = posix_spawn(&pid, options.program.c_str(), plan.actions(),
                        plan.attributes(), Pointers(args).data(),
                        Pointers(env).data());
  }
  if (error != 0) {
    return MakeError(
        ErrorReason::kWorkerDied,
        absl::StrCat("worker ", options.program, ": ", strerror(error),
                     "; name the kiln-worker program with --worker"));
  }
  return pid;
}

}  // namespace kiln
