#include "tests/support/cuda_emulator/grid.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace kiln_emulator {
namespace {

constexpr unsigned kWarp = 32;
constexpr size_t kStackBytes = 128 << 10;
constexpr size_t kMostThreads = 1024;
constexpr size_t kMostShared = 227 << 10;

struct Copy {
  void* to;
  const void* from;
  int bytes;
};

// A thread of a block.
struct Fiber {
  enum State { kReady, kAtWarp, kAtBlock, kAtCluster, kDone };
  ucontext_t context;
  State state = kDone;
  Dim place;
  // What it brings to a shuffle; two, since a fast lane may be one ahead.
  uint64_t bits[2] = {};
  unsigned shuffles = 0;
  std::vector<Copy> batch;
  std::deque<std::vector<Copy>> batches;
};

class BlockRunner;

// The blocks of a cluster that are running.
struct Cluster {
  std::mutex mu;
  std::condition_variable changed;
  std::vector<BlockRunner*> blocks;
  unsigned running = 0, waiting = 0, passed = 0;
  std::string error;

  void Wait() {
    std::unique_lock<std::mutex> lock(mu);
    const unsigned round = passed;
    ++waiting;
    if (waiting == running) {
      Pass();
    } else {
      changed.wait(lock, [&] { return passed != round; });
    }
  }
  void Leave() {
    std::lock_guard<std::mutex> lock(mu);
    --running;
    if (running > 0 && waiting == running) Pass();
  }
  void Pass() {
    waiting = 0;
    ++passed;
    changed.notify_all();
  }
};

// Runs one block after the other on the host thread that it was made on.
class BlockRunner {
 public:
  explicit BlockRunner(const Kernel& kernel) : kernel_(kernel) {
    stacks_ = static_cast<char*>(mmap(nullptr, kStackBytes * kMostThreads,
                                      PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    shared_.resize(kMostShared + 1024);
    kernel_.enter(&kHost, &place_);
  }
  ~BlockRunner() { munmap(stacks_, kStackBytes * kMostThreads); }

  std::string Run(Dim block, Dim grid, Dim extent, size_t shared_bytes,
                  void** parameters, Cluster* cluster);

 private:
  static const Host kHost;
  static BlockRunner& Mine();
  static void Begin();

  void Resume(Fiber& fiber);
  void Pause(Fiber::State state);
  bool Release();
  bool ReleaseWarp(unsigned first);
  bool All(Fiber::State state) const;
  void Wake(Fiber::State state);
  char* Shared() {
    return reinterpret_cast<char*>(
        (reinterpret_cast<uintptr_t>(shared_.data()) + 1023) / 1024 * 1024);
  }
  uint64_t DoShuffle(Shuffle kind, uint64_t bits, int argument, int width);
  void WaitForBatches(int under_way);

  const Kernel& kernel_;
  Place place_;
  char* stacks_;
  std::vector<char> shared_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  unsigned count_ = 0;
  ucontext_t scheduler_;
  Fiber* current_ = nullptr;
  void** parameters_ = nullptr;
  Cluster* cluster_ = nullptr;
  std::string error_;
};

thread_local BlockRunner* t_runner = nullptr;

BlockRunner& BlockRunner::Mine() { return *t_runner; }

const Host BlockRunner::kHost = {
    .sync_block = [] { Mine().Pause(Fiber::kAtBlock); },
    .sync_warp = [] { Mine().Pause(Fiber::kAtWarp); },
    .sync_cluster = [] { Mine().Pause(Fiber::kAtCluster); },
    .shuffle =
        [](Shuffle kind, uint64_t bits, int argument, int width) {
          return Mine().DoShuffle(kind, bits, argument, width);
        },
    .dynamic_shared = [] { return Mine().Shared(); },
    .anchor_of =
        [](unsigned rank) {
          return Mine().cluster_->blocks[rank]->place_.anchor;
        },
    .dynamic_shared_of =
        [](unsigned rank) { return Mine().cluster_->blocks[rank]->Shared(); },
    .copy_later =
        [](void* to, const void* from, int bytes) {
          Mine().current_->batch.push_back({to, from, bytes});
        },
    .end_batch =
        [] {
          Fiber& fiber = *Mine().current_;
          fiber.batches.push_back(std::move(fiber.batch));
          fiber.batch.clear();
        },
    .wait_for_batches = [](int n) { Mine().WaitForBatches(n); },
    .fail =
        [](const char* message) {
          Mine().error_ = std::string("device-side assertion: ") + message;
          Mine().Pause(Fiber::kDone);
        },
};

void BlockRunner::Begin() {
  Mine().kernel_.call(Mine().parameters_);
  Mine().Pause(Fiber::kDone);
}

void BlockRunner::Resume(Fiber& fiber) {
  current_ = &fiber;
  *place_.thread = fiber.place;
  swapcontext(&scheduler_, &fiber.context);
}

void BlockRunner::Pause(Fiber::State state) {
  Fiber& fiber = *current_;
  fiber.state = state;
  swapcontext(&fiber.context, &scheduler_);
}

uint64_t BlockRunner::DoShuffle(Shuffle kind, uint64_t bits, int argument,
                                int width) {
  Fiber& fiber = *current_;
  const unsigned turn = fiber.shuffles++ % 2;
  fiber.bits[turn] = bits;
  const unsigned t = fiber.place.x;
  const int lane = static_cast<int>(t % kWarp);
  const int group = lane / width * width;
  int from = lane;
  switch (kind) {
    case Shuffle::kXor:
      from = lane ^ argument;
      break;
    case Shuffle::kUp:
      from = lane - argument;
      break;
    case Shuffle::kIndex:
      from = group + argument % width;
      break;
  }
  Pause(Fiber::kAtWarp);
  if (from < group || from >= group + width) from = lane;
  const unsigned source = t - static_cast<unsigned>(lane - from);
  // Of a lane that is not there the value is undefined.
  return source < count_ ? fibers_[source]->bits[turn] : 0x7fc0dead7fc0dead;
}

void BlockRunner::WaitForBatches(int under_way) {
  std::deque<std::vector<Copy>>& batches = current_->batches;
  while (batches.size() > static_cast<size_t>(under_way)) {
    for (const Copy& copy : batches.front())
      std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
    batches.pop_front();
  }
}

bool BlockRunner::All(Fiber::State state) const {
  bool any = false;
  for (unsigned i = 0; i < count_; ++i) {
    if (fibers_[i]->state == Fiber::kDone) continue;
    if (fibers_[i]->state != state) return false;
    any = true;
  }
  return any;
}

void BlockRunner::Wake(Fiber::State state) {
  for (unsigned i = 0; i < count_; ++i)
    if (fibers_[i]->state == state) fibers_[i]->state = Fiber::kReady;
}

bool BlockRunner::ReleaseWarp(unsigned first) {
  const unsigned end = std::min(first + kWarp, count_);
  bool any = false;
  for (unsigned i = first; i < end; ++i) {
    const Fiber::State state = fibers_[i]->state;
    if (state != Fiber::kAtWarp && state != Fiber::kDone) return false;
    any = any || state == Fiber::kAtWarp;
  }
  for (unsigned i = first; i < end; ++i)
    if (fibers_[i]->state == Fiber::kAtWarp) fibers_[i]->state = Fiber::kReady;
  return any;
}

bool BlockRunner::Release() {
  bool any = false;
  for (unsigned first = 0; first < count_; first += kWarp)
    any = ReleaseWarp(first) || any;
  if (All(Fiber::kAtBlock)) {
    Wake(Fiber::kAtBlock);
    return true;
  }
  if (All(Fiber::kAtCluster)) {
    if (cluster_ != nullptr) cluster_->Wait();
    Wake(Fiber::kAtCluster);
    return true;
  }
  return any;
}

std::string BlockRunner::Run(Dim block, Dim grid, Dim extent,
                             size_t shared_bytes, void** parameters,
                             Cluster* cluster) {
  t_runner = this;
  parameters_ = parameters;
  cluster_ = cluster;
  count_ = extent.x * extent.y * extent.z;
  *place_.block = block;
  *place_.grid_size = grid;
  *place_.block_size = extent;
  // What a block finds there is nobody's.
  std::memset(Shared(), 0xff, shared_bytes);
  while (fibers_.size() < count_) fibers_.push_back(std::make_unique<Fiber>());
  for (unsigned i = 0; i < count_; ++i) {
    Fiber& fiber = *fibers_[i];
    fiber.state = Fiber::kReady;
    fiber.place = {i % extent.x, i / extent.x % extent.y,
                   i / extent.x / extent.y};
    fiber.shuffles = 0;
    fiber.batch.clear();
    fiber.batches.clear();
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks_ + kStackBytes * i;
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &BlockRunner::Begin, 0);
  }
  for (unsigned round = 0; !All(Fiber::kDone); ++round) {
    bool any = false, running = false;
    for (unsigned i = 0; i < count_ && error_.empty(); ++i) {
      Fiber& fiber = *fibers_[round % 2 == 0 ? i : count_ - 1 - i];
      if (fiber.state == Fiber::kReady) {
        Resume(fiber);
        any = true;
      }
      running = running || fiber.state != Fiber::kDone;
    }
    if (!error_.empty() || !running) break;
    if (!Release() && !any) {
      error_ = "the threads of a block wait at different barriers for ever";
      break;
    }
  }
  return error_;
}

std::string RunCluster(const Kernel& kernel, Dim grid, Dim block,
                       size_t shared_bytes, void** parameters, unsigned first) {
  Cluster cluster;
  cluster.running = kernel.cluster;
  cluster.blocks.resize(kernel.cluster);
  std::vector<std::thread> threads;
  std::mutex ready;
  std::condition_variable all_ready;
  unsigned arrived = 0;
  for (unsigned rank = 0; rank < kernel.cluster; ++rank) {
    threads.emplace_back([&, rank] {
      BlockRunner runner(kernel);
      {
        std::unique_lock<std::mutex> lock(ready);
        cluster.blocks[rank] = &runner;
        ++arrived;
        all_ready.notify_all();
        all_ready.wait(lock, [&] { return arrived == kernel.cluster; });
      }
      const std::string error = runner.Run({first + rank, 0, 0}, grid, block,
                                           shared_bytes, parameters, &cluster);
      cluster.Leave();
      {
        std::unique_lock<std::mutex> lock(ready);
        if (!error.empty()) cluster.error = error;
        // Others may still read this block's shared memory.
        ++arrived;
        all_ready.notify_all();
        all_ready.wait(lock, [&] { return arrived == 2 * kernel.cluster; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return cluster.error;
}

}  // namespace

std::string RunGrid(const Kernel& kernel, Dim grid, Dim block,
                    size_t dynamic_shared_bytes, void** parameters) {
  std::string error;
  if (kernel.cluster > 1) {
    for (unsigned x = 0; x < grid.x && error.empty(); x += kernel.cluster)
      error =
          RunCluster(kernel, grid, block, dynamic_shared_bytes, parameters, x);
    return error;
  }
  BlockRunner runner(kernel);
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x && error.empty(); ++x)
        error = runner.Run({x, y, z}, grid, block, dynamic_shared_bytes,
                           parameters, nullptr);
  return error;
}

}  // namespace kiln_emulator
