#ifndef KILN_PROTO_JAIL_JAILED_CHILD_H_
#define KILN_PROTO_JAIL_JAILED_CHILD_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/child.h"
#include "proto/jail/jail_report.h"
#include "proto/jail/jail_spec.h"

namespace kiln {

struct JailedChildOptions {
  std::string program;            // whose main begins with EnterJail
  std::vector<std::string> args;  // its own
  std::vector<std::string> env;   // "NAME=value", after the base set
  std::string scratch_prefix;     // a new folder PREFIX-XXXXXX is made
  JailSpec jail;                  // `scratch` is filled in
};

// A worker in a jail, from its parent's side: its process, its socket, its
// scratch folder and its last words. What it is started with stands in
// proto/worker.proto. It is started by posix_spawn, so the parent never forks;
// the program puts itself into the jail before it reads anything (EnterJail).
//
// No two workers ever have one folder: a compiler that outlived its worker, and
// the daemon too, writes where nobody reads. Its stderr is a file without a
// name: there is no path that it could put a link in the place of.
//
// One thread, but for pid(), report() and Interrupt(). Destroyed: ended with all
// its processes, its folder removed.
class JailedChild {
 public:
  // Waits, `patience` at most, until it tells of its jail.
  //
  // Errors, naming the program or the folder; nothing is left of it then:
  //   NO_TOOLCHAIN  the program can't be executed, or tells nothing
  //   PERMISSION    the machine grants less than spec.levels.weakest
  //   STORAGE       the folder can't be made
  static absl::StatusOr<std::unique_ptr<JailedChild>> Start(
      JailedChildOptions options, absl::Duration patience);

  JailedChild(const JailedChild&) = delete;
  JailedChild& operator=(const JailedChild&) = delete;
  ~JailedChild();

  // Our end of its stream.
  int socket_fd() const { return socket_fd_; }
  // Of the worker, as this process sees it.
  pid_t pid() const { return report_.worker; }
  const JailReport& report() const { return report_; }
  const std::string& scratch() const { return scratch_; }

  bool HasEnded() const { return child_->HasEnded(); }

  // Processor time that the worker itself has used; zero once it has ended.
  absl::Duration UsedCpu() const;

  // Ends the stream, from any thread: its reader is told at once, and the worker
  // is ended.
  void Interrupt();

  // Ends it and all that it started: none of them runs when this returns.
  // "killed" or how it ended by itself, with the tail of its stderr.
  std::string PostMortem();

 private:
  JailedChild() = default;
  absl::Status Launch(const JailedChildOptions& options);
  absl::Status HearReport(const std::string& program, absl::Duration patience);
  // The status of waitpid.
  int End();
  std::string StderrTail() const;

  std::string scratch_;
  int socket_fd_ = -1;
  int stderr_fd_ = -1;
  std::unique_ptr<Child> child_;  // the jailer; null: not started
  JailReport report_;             // fixed once Start returns
};

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_JAILED_CHILD_H_
