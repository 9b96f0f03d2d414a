#ifndef KILN_PROTO_BASE_CHILD_H_
#define KILN_PROTO_BASE_CHILD_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kiln {

// Child processes: the daemon's and a client's workers, and a worker's
// compilers. One word for three rooms that may not see each other.

enum class ChildGroup {
  kOwn,   // leads a process group of its own, which ends with it
  kOurs,  // stays in its parent's: a compiler ends with its worker's group
};

struct ChildOptions {
  // A path, relative to the parent's working directory; nothing is searched.
  std::string program;
  std::vector<std::string> args;  // without the program's name
  std::vector<std::string> env;   // the whole environment, "NAME=value"
  std::string folder;             // working directory; empty: the parent's
  // Takes stdout and stderr; made anew, mode 0600. Empty: `descriptors` say.
  std::string output_file;
  struct Descriptor {
    int ours = -1;
    int childs = -1;
  };
  // What the child finds open, numbered from 0 without a gap but for 0 and,
  // with an output_file, 1 and 2. Without a descriptor 0 it gets /dev/null.
  // Everything else is closed.
  std::vector<Descriptor> descriptors;
  ChildGroup group = ChildGroup::kOwn;
};

// A child process, and with ChildGroup::kOwn all that it started. Move-only;
// killed and reaped when destroyed.
//
// Not thread-safe.
class Child {
 public:
  // By posix_spawn: no copy of the parent's memory is made, whatever its size.
  // Signals are unblocked and at their defaults.
  //
  // The system's error, naming the program: NOT_FOUND when it is absent,
  // PERMISSION_DENIED when it can't be executed, UNAVAILABLE or
  // RESOURCE_EXHAUSTED when there is no process or descriptor left.
  static absl::StatusOr<Child> Start(const ChildOptions& options);

  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        number_(other.number_),
        group_(other.group_),
        status_(other.status_) {}
  Child& operator=(Child&&) = delete;
  ~Child() { End(); }

  // Its number, also once it is no more.
  pid_t pid() const { return number_; }

  // True once it has ended by itself. It is left unreaped, so that the number
  // of its group stays its own until End.
  bool HasEnded() const;

  // HasEnded, which it has at most `grace` to become: one whose socket closed is
  // about to end, and its own signal is to be told, not ours.
  bool EndsWithin(absl::Duration grace) const;

  // Kills what still runs of it, its group too: also when the leader has ended
  // by itself and left a compiler. Then reaps. Gives the status of waitpid;
  // again at each later call.
  int End();

  // Waits until it ends by itself, and reaps. Gives the status of waitpid.
  int Wait() { return Reap(); }

 private:
  Child(pid_t pid, ChildGroup group) : pid_(pid), number_(pid), group_(group) {}
  int Reap();

  pid_t pid_;  // -1: reaped
  pid_t number_;
  ChildGroup group_;
  int status_ = 0;
};

// "exited with 3", "ended by signal 9 (Killed)".
std::string HowItEnded(int wait_status);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_CHILD_H_
