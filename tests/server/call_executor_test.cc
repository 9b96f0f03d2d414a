#include "server/call_executor.h"

#include <future>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/mutex.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// An executor of one thread, which is held until Go; who was served in which order.
class Held {
 public:
  explicit Held(const FairShare::Amount& limit) : executor_(1, limit) {
    std::promise<void> begun;
    EXPECT_TRUE(executor_
                    .Run("holder", 0,
                         [&begun, go = go_.get_future().share()] {
                           begun.set_value();
                           go.wait();
                         })
                    .ok());
    begun.get_future().wait();
  }
  ~Held() { Go(); }

  absl::Status Ask(const std::string& caller, int64_t bytes = 0) {
    return executor_.Run(caller, bytes, [this, caller] {
      MutexLock lock(&mu_);
      absl::StrAppend(&served_, caller, " ");
    });
  }
  std::string Go() {
    if (!told_) go_.set_value();
    told_ = true;
    executor_.WaitUntilIdle(absl::InfiniteDuration());
    MutexLock lock(&mu_);
    return served_;
  }

 private:
  std::promise<void> go_;
  bool told_ = false;
  Mutex mu_;
  std::string served_;
  CallExecutor executor_;
};

TEST(CallExecutor, CallersTakeTurns) {
  Held held({.places = 100});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(held.Ask("a").ok());
  for (const char* late : {"b", "b", "c"}) EXPECT_TRUE(held.Ask(late).ok());
  EXPECT_EQ(held.Go(), "a b c a b a a a ");
}

TEST(CallExecutor, AFloodOfOneCallersLeavesRoomForAnother) {
  Held held({.places = 1024, .bytes = 1 << 20});
  int taken = 0;
  absl::Status status;
  while ((status = held.Ask("flood")).ok()) ++taken;
  EXPECT_EQ(ReasonOf(status), ErrorReason::kQueueFull);
  EXPECT_EQ(taken, 512);
  EXPECT_TRUE(held.Ask("other", 1 << 10).ok());
}

TEST(CallExecutor, BytesAreCountedUntilTheWorkIsDone) {
  Held held({.places = 1024, .bytes = 1000});
  EXPECT_TRUE(held.Ask("a", 600).ok());
  EXPECT_FALSE(held.Ask("a", 100).ok());
  EXPECT_TRUE(held.Ask("b", 300).ok());
  EXPECT_FALSE(held.Ask("c", 300).ok());
  EXPECT_EQ(held.Go(), "a b ");
  EXPECT_TRUE(held.Ask("c", 300).ok());
}

}  // namespace
}  // namespace kiln
