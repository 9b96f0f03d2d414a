#include "runtime/thread_pool.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "proto/base/log.h"

namespace kiln {
namespace {

// Some 20 us of pauses at 3 GHz: longer than the gap between two kernels of a
// plan, shorter than a wake-up.
constexpr int kLooksBeforeSleep = 400;

// Pieces a thread, so that a late thread does not hold up the others.
constexpr int64_t kPiecesPerThread = 4;

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

ThreadPool::Team ThreadPool::ProgramsTeam() {
  return reinterpret_cast<Team>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
}

ThreadPool::ThreadPool(int threads, Team team)
    : team_(team), process_(getpid()) {
  threads = std::clamp(threads, 1, kMaxThreads);
  if (team_ != nullptr) {
    threads_ = threads;
    return;
  }
  workers_.reserve(std::max(threads - 1, 0));
  // std::thread throws when the machine, or the limit of a container, gives no
  // more: then those that there are do the work.
  try {
    for (int i = 1; i < threads; ++i) {
      workers_.emplace_back([this] { WorkerMain(); });
    }
  } catch (const std::system_error& none_left) {
    LogWarning("thread_pool.short",
               {{"found", static_cast<int>(workers_.size()) + 1},
                {"expected", threads},
                {"because", none_left.what()}});
  }
  threads_ = static_cast<int>(workers_.size()) + 1;
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&mu_);
    stopping_.store(true, std::memory_order_release);
    round_.fetch_add(1, std::memory_order_release);
  }
  wake_.SignalAll();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunPieces(Loop& loop) {
  for (;;) {
    const int64_t begin =
        loop.next.fetch_add(loop.piece, std::memory_order_relaxed);
    if (begin >= loop.count) return;
    loop.body(loop.context, begin, std::min(begin + loop.piece, loop.count));
  }
}

void ThreadPool::ParallelFor(int64_t count, int64_t grain, Body body,
                             void* context) {
  if (count <= 0) return;
  // Threads do not follow into a forked process.
  if (threads_ == 1 || count <= grain || getpid() != process_ ||
      busy_.exchange(true, std::memory_order_acquire)) {
    body(context, 0, count);
    return;
  }
  const int64_t pieces = threads() * kPiecesPerThread;
  loop_.body = body;
  loop_.context = context;
  loop_.count = count;
  loop_.piece = std::max(grain, (count + pieces - 1) / pieces);
  loop_.next.store(0, std::memory_order_relaxed);
  if (team_ != nullptr) {
    RunOnTeam();
    busy_.store(false, std::memory_order_release);
    return;
  }
  gate_.store(kOpen, std::memory_order_release);
  bool someone_sleeps = false;
  {
    // Under the lock: a worker that is about to sleep either sees the new
    // round or is counted among the sleepers.
    MutexLock lock(&mu_);
    round_.fetch_add(1, std::memory_order_release);
    someone_sleeps = sleepers_ > 0;
  }
  if (someone_sleeps) wake_.SignalAll();
  RunPieces(loop_);
  gate_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int looks = 0; gate_.load(std::memory_order_acquire) != 0; ++looks) {
    if (looks < kLooksBeforeSleep) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
  busy_.store(false, std::memory_order_release);
}

void ThreadPool::RunOnTeam() {
  gate_.store(0, std::memory_order_release);
  team_(
      [](void* context) {
        ThreadPool& pool = *static_cast<ThreadPool*>(context);
        pool.gate_.fetch_add(1, std::memory_order_acquire);
        RunPieces(pool.loop_);
        pool.gate_.fetch_sub(1, std::memory_order_release);
      },
      this, static_cast<unsigned>(threads_), 0);
  // The team is done. This is the order of memory that it promises, said once
  // more where sanitizers see it.
  (void)gate_.load(std::memory_order_acquire);
}

void ThreadPool::WorkerMain() {
  uint32_t seen = 0;
  for (;;) {
    int looks = 0;
    while (round_.load(std::memory_order_acquire) == seen) {
      if (++looks < kLooksBeforeSleep) {
        Pause();
        continue;
      }
      MutexLock lock(&mu_);
      ++sleepers_;
      while (round_.load(std::memory_order_acquire) == seen) wake_.Wait(&mu_);
      --sleepers_;
    }
    seen = round_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_acquire)) return;
    uint32_t gate = gate_.load(std::memory_order_relaxed);
    while ((gate & kOpen) != 0) {
      if (!gate_.compare_exchange_weak(gate, gate + 1,
                                       std::memory_order_acquire)) {
        continue;
      }
      RunPieces(loop_);
      gate_.fetch_sub(1, std::memory_order_release);
      break;
    }
  }
}

}  // namespace kiln
