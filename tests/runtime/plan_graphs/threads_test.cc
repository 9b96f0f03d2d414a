// Results that other threads drop while graphs are recorded and replayed.
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/runtime/plan_graphs/plan_graphs_rig.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

// Drops what it is given, in order, on a thread of its own.
class Dropper {
 public:
  Dropper() : thread_([this] { Run(); }) {}
  ~Dropper() {
    Give({});  // the end
    thread_.join();
  }
  Dropper(const Dropper&) = delete;

  void Give(std::vector<Tensor> results) {
    const std::lock_guard<std::mutex> lock(mu_);
    given_.push_back(std::move(results));
    more_.notify_one();
  }

 private:
  void Run() {
    while (true) {
      std::vector<Tensor> results;
      {
        std::unique_lock<std::mutex> lock(mu_);
        more_.wait(lock, [this] { return !given_.empty(); });
        results = std::move(given_.front());
        given_.pop_front();
      }
      if (results.empty()) return;
    }
  }

  std::mutex mu_;
  std::condition_variable more_;
  std::deque<std::vector<Tensor>> given_;
  std::thread thread_;  // goes first
};

class Threads : public PlanGraphsTest {
 protected:
  Threads() : PlanGraphsTest(GraphOptions()) {}
};

TEST_F(Threads, NoBlockIsLeftWhereAnotherThreadDropsTheResults) {
  {
    Dropper dropper;
    const int copy = Add(CopyPlan());
    for (int i = 0; i < 3; ++i) Begin(copy, {Vector(1)});
    for (int step = 0; step < 100; ++step) {
      // A plan that is new is warmed up behind a replay, so the pool is restored
      // while the results of the replay may go.
      const int two = Add(TwoResultsPlan());
      for (int i = 0; i < 3; ++i) {
        std::vector<Tensor> first = Begin(copy, {Vector(1)});
        std::vector<Tensor> second = Call(copy, {Vector(2)});
        // What ends in the middle of a recording, the second call, is an error.
        const bool warms_up = i == 0;
        if (warms_up) dropper.Give(std::move(first));
        if (warms_up) dropper.Give(std::move(second));
        dropper.Give(Call(two, {Vector(3)}));
        if (!warms_up) dropper.Give(std::move(first));
        if (!warms_up) dropper.Give(std::move(second));
      }
    }
  }
  EXPECT_GT(counters().checkpoints, 100);
  graphs_.reset();
  EXPECT_EQ(allocator_->figures().allocated_bytes, 0);
  EXPECT_EQ(allocator_->figures().segment_bytes, 0);
  EXPECT_EQ(allocator_->figures().unknown_frees, 0);
}

}  // namespace
}  // namespace kiln
