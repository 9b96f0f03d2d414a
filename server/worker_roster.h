#ifndef KILN_SERVER_WORKER_ROSTER_H_
#define KILN_SERVER_WORKER_ROSTER_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"
#include "proto/jail/jail_spec.h"
#include "proto/worker.pb.h"
#include "server/build_identity.h"
#include "server/worker_process.h"

namespace kiln {

// What `compilectl workers` shows of one.
struct WorkerView {
  int index = 0;
  pid_t pid = 0;  // 0: none now
  std::string state;
  std::string key;            // of its job; empty when idle
  std::string sandbox;        // name of its jail's level; empty: none now
  std::string sandbox_lacks;  // why it is none stronger, or empty
  int64_t requests_done = 0;
  int64_t restarts = 0;
  int64_t resident_bytes = 0;
};

// Who works, on what, and who they say they are. Thread-safe.
class WorkerRoster {
 public:
  explicit WorkerRoster(int count) : slots_(count) {}
  WorkerRoster(const WorkerRoster&) = delete;
  WorkerRoster& operator=(const WorkerRoster&) = delete;

  int size() const { return static_cast<int>(slots_.size()); }

  void SetState(int index, absl::string_view state, const Digest& key)
      ABSL_LOCKS_EXCLUDED(mu_);
  void CountDone(int index) ABSL_LOCKS_EXCLUDED(mu_);

  // The slot's process, or null. It ends when the last who has it lets go.
  std::shared_ptr<WorkerProcess> process(int index) const
      ABSL_LOCKS_EXCLUDED(mu_);
  void Enter(int index, std::shared_ptr<WorkerProcess> process)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Leave(int index) ABSL_LOCKS_EXCLUDED(mu_);
  void NoteFailedStart(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);
  // OK once one has entered; the last failure when all have failed.
  absl::Status WaitForFirst() ABSL_LOCKS_EXCLUDED(mu_);

  // Interrupts all there are, and all that enter from now on.
  void End() ABSL_LOCKS_EXCLUDED(mu_);

  // `hello` of one that was just started: the others' build is now its own. All
  // have the program of the first: NO_TOOLCHAIN for another.
  absl::Status TakeIdentity(const wire::HelloReply& hello)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The jail of one that was just started, with or without a GPU. PERMISSION when
  // one before had a stronger: the machine grants less than it did.
  absl::Status TakeLevel(JailLevel level, bool gpu) ABSL_LOCKS_EXCLUDED(mu_);
  // Whether it has the compilers that the worker started last reported.
  bool IsOfThisBuild(const wire::HelloReply& hello) const
      ABSL_LOCKS_EXCLUDED(mu_);

  wire::HelloReply identity() const ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<const BuildIdentity> build() const ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<WorkerView> Snapshot() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Slot {
    std::shared_ptr<WorkerProcess> process;  // null: none now
    std::string state = "starting";
    Digest key;
    int64_t requests_done = 0;
    int64_t starts = 0;
  };

  mutable Mutex mu_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  wire::HelloReply identity_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const BuildIdentity> build_ ABSL_GUARDED_BY(mu_);  // or null
  // Without and with a GPU.
  std::array<JailLevel, 2> levels_ ABSL_GUARDED_BY(mu_) = {JailLevel::kLimits,
                                                           JailLevel::kLimits};
  int failed_starts_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status last_failure_ ABSL_GUARDED_BY(mu_);
  std::vector<Slot> slots_;  // of a fixed number; each guarded by mu_
};

}  // namespace kiln

#endif  // KILN_SERVER_WORKER_ROSTER_H_
