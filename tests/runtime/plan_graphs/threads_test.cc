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
        dropper.Give(Begin(copy, {Vector(1)}));
        dropper.Give(Call(copy, {Vector(2)}));
        dropper.Give(Call(two, {Vector(3)}));
      }
    }
  }
  EXPECT_GT(counters().checkpoints, 100);
  graphs_.reset();
  EXPECT_EQ(allocator_->figures().allocated_bytes, 0);
  EXPECT_EQ(allocator_->figures().segment_bytes, 0);
  EXPECT_EQ(allocator_->figures().unknown_frees, 0);
}

// When in a recording another thread drops a result that is no input of it.
class DropsInRecordings : public Threads,
                          public testing::WithParamInterface<bool> {
 protected:
  // Replays f, then calls g, in the middle of which the result goes.
  void DropInCallOf(int g, int f) {
    std::vector<Tensor> y = Begin(f, {Vector(1)});
    auto& hook = GetParam() ? device_->before_copy : device_->before_capture;
    hook = [&] { std::thread([&] { y.clear(); }).join(); };
    ExpectValues(Call(g, {Vector(5)})[0], Vector(5));
    EXPECT_TRUE(y.empty());
  }
  static void ExpectValues(const Tensor& tensor, const Tensor& wanted) {
    EXPECT_EQ(FloatsOf(tensor), FloatsOf(wanted));
  }
  static std::vector<float> FloatsOf(const Tensor& tensor) {
    const auto* const at = static_cast<const float*>(tensor.data);
    return std::vector<float>(at, at + 4);
  }
};

TEST_P(DropsInRecordings, AreAsIfTheyHadWaitedForItsEnd) {
  const int f = Add(CopyPlan());
  const int g = Add(CopyPlan());
  for (int i = 0; i < 2; ++i) Begin(f, {Vector(1)});
  Begin(f, {Vector(1)});
  Call(g, {Vector(1)});  // warms up
  DropInCallOf(g, f);
  EXPECT_EQ(counters().recordings, 2);
  EXPECT_EQ(AllocatedBlocks(), 0);
  // A replay writes over nothing that is in use.
  for (int i = 0; i < 3; ++i) {
    const std::vector<Tensor> y = Begin(f, {Vector(1)});
    ExpectValues(Call(g, {Vector(9)})[0], Vector(9));
    ExpectValues(y[0], Vector(1));
  }
  // Nor does it ask for the result to be there.
  Begin(f, {Vector(1)});
  ExpectValues(Call(g, {Vector(9)})[0], Vector(9));
  EXPECT_EQ(counters().recordings, 2);
}

INSTANTIATE_TEST_SUITE_P(BeforeAndBehindItsMemory, DropsInRecordings,
                         testing::Bool());

TEST_F(Threads, AnInputThatOthersHoldOutlivesItsRecordedDeath) {
  const int f = Add(CopyPlan());
  const int g = Add(CopyPlan());
  for (int i = 0; i < 3; ++i) {
    // The call alone has it.
    std::vector<InputValue> inputs;
    inputs.emplace_back(std::move(Begin(f, {Vector(1)})[0]));
    Call(g, std::move(inputs));
  }
  EXPECT_EQ(counters().recordings, 2);
  const std::vector<Tensor> y = Begin(f, {Vector(1)});
  const std::vector<Tensor> z = Call(g, {y[0]});
  ASSERT_EQ(z.size(), 1u);
  EXPECT_NE(z[0].data, y[0].data);
  EXPECT_EQ(static_cast<const float*>(y[0].data)[0], 1);
  EXPECT_EQ(static_cast<const float*>(z[0].data)[0], 1);
  EXPECT_EQ(counters().recordings, 3);
}

TEST_F(Threads, AnInputThatIsLetGoInARecordingMayStayInAReplay) {
  const int f = Add(CopyPlan());
  const int g = Add(CopyPlan());
  std::vector<Tensor> given;
  for (int i = 0; i < 3; ++i) {
    given = Begin(f, {Vector(1)});
    std::vector<InputValue> inputs = {given[0]};
    // Another thread has the result as well, until the recording has begun.
    if (i == 1) {
      device_->before_capture = [&] {
        std::thread([&] { given.clear(); }).join();
      };
    }
    Call(g, std::move(inputs));
    EXPECT_EQ(given.empty(), i == 1);
  }
  given.clear();
  EXPECT_EQ(counters().recordings, 2);
  const std::vector<Tensor> y = Begin(f, {Vector(1)});
  const std::vector<Tensor> z = Call(g, {y[0]});
  EXPECT_NE(z[0].data, y[0].data);
  EXPECT_EQ(static_cast<const float*>(y[0].data)[0], 1);
  EXPECT_EQ(counters().recordings, 2);
}

}  // namespace
}  // namespace kiln
