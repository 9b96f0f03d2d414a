#ifndef KILN_RUNTIME_THREAD_POOL_H_
#define KILN_RUNTIME_THREAD_POOL_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "proto/base/mutex.h"

namespace kiln {

// Threads that share out the loops of CPU kernels. One loop at a time runs on
// them; a caller that finds them busy runs his loop alone, so concurrent calls
// never wait for each other. The caller's own thread always takes part.
//
// After a loop the threads look out for the next one for some microseconds
// before they sleep: the kernels of a plan follow each other closely, and
// waking a sleeper costs 5 to 40 us (facts: pipe round trip, 40 us asleep and
// 7 awake).
//
// In a program with OpenMP, such as PyTorch, the loops run on its threads. They
// spin for milliseconds after a loop of the program's own: threads of ours would
// have to share their cores just then.
//
// Thread-safe. Joins its threads when destroyed.
class ThreadPool {
 public:
  using Body = void (*)(void* context, int64_t begin, int64_t end);

  // More than any machine of one socket has cores; beyond it a number is a
  // slip of the pen.
  static constexpr int kMaxThreads = 1024;

  // GOMP_parallel of libgomp and of what stands in for it: calls `body` on
  // `threads` threads, the caller's among them, and returns when all are done.
  using Team = void (*)(void (*body)(void*), void* context, unsigned threads,
                        unsigned flags);

  // Of the OpenMP that all of the program shares; null where there is none.
  static Team ProgramsTeam();

  // `threads` >= 1, the caller's among them, are those of `team`. Where that is
  // null, at most kMaxThreads are started, and fewer, with a warning in the log,
  // where the machine gives no more: threads() says how many there are.
  explicit ThreadPool(int threads, Team team = nullptr);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls body(context, begin, end) on disjoint pieces that cover [0, count),
  // each at least `grain` (>= 1) long but the last. Returns when all are done.
  // Called from inside a body, or in a process forked from the pool's, it runs the
  // loop on that thread alone.
  void ParallelFor(int64_t count, int64_t grain, Body body, void* context);

 private:
  // The gate of the loop in progress: open while there may be pieces left, and
  // the number of workers inside. The caller closes it when he finds no piece
  // left, and waits for those inside alone: a worker that is late, because the
  // machine is busy, holds nobody up.
  static constexpr uint32_t kOpen = uint32_t{1} << 31;

  // A loop in progress: fixed but for `next`, which hands out pieces.
  struct Loop {
    Body body = nullptr;
    void* context = nullptr;
    int64_t count = 0;
    int64_t piece = 1;
    std::atomic<int64_t> next{0};
  };

  void WorkerMain();
  void RunOnTeam();
  static void RunPieces(Loop& loop);

  const Team team_;
  const pid_t process_;  // of the threads
  int threads_ = 1;
  Loop loop_;                      // written while nobody is inside
  std::atomic<bool> busy_{false};  // someone's loop owns the workers
  std::atomic<uint32_t> gate_{0};
  std::atomic<uint32_t> round_{0};  // a change tells workers of a new loop
  std::atomic<bool> stopping_{false};
  Mutex mu_;
  CondVar wake_;
  int sleepers_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::thread> workers_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_THREAD_POOL_H_
