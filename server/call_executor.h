#ifndef KILN_SERVER_CALL_EXECUTOR_H_
#define KILN_SERVER_CALL_EXECUTOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/base/mutex.h"
#include "server/fair_share.h"
#include "server/turns.h"

namespace kiln {

// A fixed number of threads for work that computes and never waits: decoding,
// canonical forms, looks in the cache. gRPC's own threads stay free for what comes
// in. Thread-safe.
class CallExecutor {
 public:
  // Holds at most `limit` of work that is not done, and of that a caller's share.
  CallExecutor(int threads, const FairShare::Amount& limit);

  CallExecutor(const CallExecutor&) = delete;
  CallExecutor& operator=(const CallExecutor&) = delete;
  // Does what is queued, then ends.
  ~CallExecutor();

  // Callers take turns, and what one sent comes in order. `bytes`: what the work
  // holds. A function: what is done is the callers' story.
  //
  // RESOURCE_EXHAUSTED QUEUE_FULL beyond the caller's share; `work` is dropped.
  absl::Status Run(const std::string& caller, int64_t bytes,
                   std::function<void()> work) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns when nothing is queued or being done, or after `timeout`.
  void WaitUntilIdle(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Work {
    FairShare::Part part;
    std::function<void()> function;
  };
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  // Of the caller whose turn it is.
  Work Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  FairShare shares_;
  Mutex mu_;
  CondVar changed_;
  CondVar idle_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  int64_t busy_ ABSL_GUARDED_BY(mu_) = 0;                // threads
  Turns<std::deque<Work>> queued_ ABSL_GUARDED_BY(mu_);  // by caller
  std::vector<std::thread> threads_;
};

}  // namespace kiln

#endif  // KILN_SERVER_CALL_EXECUTOR_H_
