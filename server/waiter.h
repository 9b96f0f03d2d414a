#ifndef KILN_SERVER_WAITER_H_
#define KILN_SERVER_WAITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kiln {

// What a job makes; defined in compile_task.h. Here it is passed along only.
struct CompiledArtifact;

// Bytes of a message that many callers get: encoded once, never changed.
using SharedBytes = std::shared_ptr<const std::string>;

// Bytes of an answer: a head of its own, and behind it bytes that others hold too.
struct SharedAnswer {
  SharedAnswer() = default;
  // All that is shared, and no head.
  explicit SharedAnswer(const SharedBytes& whole)
      : owner(whole), tail(*whole) {}
  SharedAnswer(std::string head, SharedBytes owner, absl::string_view tail)
      : head(std::move(head)), owner(std::move(owner)), tail(tail) {}

  int64_t bytes() const {
    return static_cast<int64_t>(head.size() + tail.size());
  }

  std::string head;
  SharedBytes owner;  // keeps `tail` alive
  absl::string_view tail;
};

enum class JobStage {
  kQueued,
  kElsewhere,  // another daemon makes it (job_leases.h)
  kPlanning,
  kBuilding,
  kStoring,
};

// How far a job is.
struct JobProgress {
  JobStage stage = JobStage::kQueued;
  int done = 0;     // kernels, while building
  int total = 0;    // kernels
  std::string job;  // "j-0193"
  // While it is queued: 1 is the next to begin. Else 0.
  int64_t queue_position = 0;
  absl::Duration age;  // since its first caller came

  friend bool operator==(const JobProgress&, const JobProgress&) = default;
};

// A CompileEvent with this progress.
SharedBytes EventOf(const JobProgress& progress);

// How a job ended: `artifact` is set exactly when `status` is OK.
struct JobOutcome {
  absl::Status status;
  std::shared_ptr<const CompiledArtifact> artifact;
};

enum class JobRole {
  kLeader,  // began the job
  kJoined,  // found it under way
};

// One caller that waits for a job. It costs no thread: the job's threads tell it.
// All functions are called from any thread and return at once.
class Waiter {
 public:
  virtual ~Waiter() = default;

  // Whose it is, an opaque name (quarantine.h); empty: nobody's.
  virtual std::string CallerName() const { return ""; }

  // OK while the caller waits; else CANCELLED or DEADLINE_EXCEEDED.
  virtual absl::Status StillWaits() const = 0;

  // How the job goes, as a CompileEvent. What was not sent on yet is replaced.
  virtual void OnProgress(const SharedBytes& event) = 0;

  // The job has ended: once a Join, unless the waiter left before.
  virtual void OnOutcome(JobRole role, const JobOutcome& outcome) = 0;
};

}  // namespace kiln

#endif  // KILN_SERVER_WAITER_H_
