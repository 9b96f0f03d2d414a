#ifndef KILN_SERVER_CALL_THREADS_H_
#define KILN_SERVER_CALL_THREADS_H_

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

// Threads for calls that wait: a compile takes seconds, and gRPC's own threads
// must not sit in it. Grows with the calls up to a bound, and shrinks again to
// a few idle threads. Thread-safe.
class CallThreads {
 public:
  // Runs at most `limit` calls at once.
  explicit CallThreads(int64_t limit) : limit_(limit) {}

  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;
  // Waits for all calls: whoever ends this has told them to end.
  ~CallThreads();

  // Runs `call` on a thread, at once. A function: what waits is the story of a
  // request, which this room need not know.
  //
  // RESOURCE_EXHAUSTED QUEUE_FULL when `limit` calls run; `call` is dropped.
  absl::Status Run(std::function<void()> call) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns when no call runs, or when `timeout` has passed.
  void WaitUntilIdle(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  // Joins threads that ended by themselves.
  void Sweep() ABSL_LOCKS_EXCLUDED(mu_);

  const int64_t limit_;
  Mutex mu_;
  CondVar changed_;
  CondVar idle_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  int64_t running_ ABSL_GUARDED_BY(mu_) = 0;  // calls, begun or about to
  int64_t threads_alive_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<std::function<void()>> calls_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread::id> ended_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_CALL_THREADS_H_
