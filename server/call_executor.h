#ifndef KILN_SERVER_CALL_EXECUTOR_H_
#define KILN_SERVER_CALL_EXECUTOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/base/mutex.h"

namespace kiln {

// A fixed number of threads for work that computes and never waits: decoding,
// canonical forms, looks in the cache. gRPC's own threads stay free for what comes
// in. Thread-safe.
class CallExecutor {
 public:
  // Holds at most `queue_limit` pieces of work that wait for a thread.
  CallExecutor(int threads, int64_t queue_limit);

  CallExecutor(const CallExecutor&) = delete;
  CallExecutor& operator=(const CallExecutor&) = delete;
  // Does what is queued, then ends.
  ~CallExecutor();

  // First come, first served. A function: what is done is the callers' story.
  //
  // RESOURCE_EXHAUSTED QUEUE_FULL at the limit; `work` is dropped.
  absl::Status Run(std::function<void()> work) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns when nothing is queued or being done, or after `timeout`.
  void WaitUntilIdle(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);

  const int64_t queue_limit_;
  Mutex mu_;
  CondVar changed_;
  CondVar idle_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  int64_t busy_ ABSL_GUARDED_BY(mu_) = 0;  // threads
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

}  // namespace kiln

#endif  // KILN_SERVER_CALL_EXECUTOR_H_
