#include "server/far_lookups.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cache/cache_stack.h"
#include "proto/base/seal.h"
#include "tests/support/key_named.h"
#include "tests/support/map_far_store.h"

namespace kiln {
namespace {

class FarLookupsTest : public testing::Test {
 protected:
  FarLookupsTest() {
    CacheOptions options;
    options.far_store = far_;
    options.far = {.budget = absl::Seconds(60),
                   .queue_bytes = 1 << 20,
                   .max_record_bytes = 1 << 20};
    NewEntry entry;
    entry.key = KeyNamed("key");
    wire::ArtifactEnvelope envelope;
    envelope.set_compile_key(kKey.ToBytes());
    envelope.set_entry_id(EntryId(kKey, {}, {}).ToBytes());
    entry.artifact = SealArtifact(signer_, envelope, "artifact");
    const auto maker =
        *CacheStack::Open(options, std::make_shared<KeyRing>(signer_), clock_);
    EXPECT_TRUE(maker->artifacts().Insert(entry).ok());
    far_->AwaitRecords(1);
    stack_ =
        *CacheStack::Open(options, std::make_shared<KeyRing>(signer_), clock_);
  }
  FarAsk Ask(std::vector<int64_t> values = {8}) const {
    return {.key = kKey, .values = std::move(values), .decisions = none_};
  }
  // Of one of many things that nobody has.
  FarAsk AskForNothing(int which) const {
    return {.key = Sha256Of(absl::StrCat("nothing", which)),
            .decisions = none_};
  }

  const Digest kKey = KeyOfName("key");
  FakeClock clock_;
  const SigningKey signer_ = *SigningKey::Generate();
  const std::shared_ptr<MapFarStore> far_ = std::make_shared<MapFarStore>();
  const std::shared_ptr<const TuningDecisions> none_ =
      std::make_shared<const TuningDecisions>();
  std::unique_ptr<CacheStack> stack_;
};

TEST_F(FarLookupsTest, CallersWhoAskTheSameShareOneLook) {
  constexpr int kCallers = 200;
  FarLookups lookups(stack_->artifacts(), absl::Seconds(60));
  // The look waits until all have come.
  Mutex mu;
  CondVar changed;
  bool come = false;
  int answered = 0;
  far_->CallBeforeHints([&] {
    MutexLock lock(&mu);
    while (!come) changed.Wait(&mu);
  });
  for (int i = 0; i < kCallers; ++i) {
    lookups.Start("caller", Ask(), [&](const CacheAnswer& answer) {
      EXPECT_EQ(answer.artifact.artifact(), "artifact");
      MutexLock lock(&mu);
      ++answered;
      changed.SignalAll();
    });
  }
  MutexLock lock(&mu);
  EXPECT_EQ(answered, 0);
  come = true;
  changed.SignalAll();
  while (answered < kCallers) changed.Wait(&mu);
  EXPECT_EQ(far_->hints_asked(), 1);
}

TEST_F(FarLookupsTest, WhatOneLookBroughtIsNearForTheNext) {
  for (const int64_t value : {8, 9}) {
    // Its end waits for the answer.
    FarLookups lookups(stack_->artifacts(), absl::Seconds(60));
    lookups.Start("caller", Ask({value}),
                  [](const CacheAnswer& answer) { EXPECT_TRUE(answer.hit()); });
  }
  EXPECT_EQ(far_->hints_asked(), 1);
}

TEST_F(FarLookupsTest, ThoseWhoWaitAtTheEndAreAnswered) {
  std::atomic<int> answered = 0;
  {
    FarLookups lookups(stack_->artifacts(), absl::Seconds(60));
    for (int i = 0; i < 100; ++i)
      lookups.Start("caller", Ask({i}),
                    [&](const CacheAnswer&) { ++answered; });
  }
  EXPECT_EQ(answered, 100);
}

// Lets looks at a store begin, each with its number, and go on by the number.
class Gate {
 public:
  explicit Gate(MapFarStore& store) {
    store.CallBeforeHints([this] {
      MutexLock lock(&mu_);
      const int number = begun_++;
      changed_.SignalAll();
      while (number >= open_to_) changed_.Wait(&mu_);
    });
  }
  void OpenTo(int number) {
    MutexLock lock(&mu_);
    open_to_ = number;
    changed_.SignalAll();
  }
  void AwaitBegun(int due) {
    MutexLock lock(&mu_);
    while (begun_ < due) changed_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int begun_ ABSL_GUARDED_BY(mu_) = 0;
  int open_to_ ABSL_GUARDED_BY(mu_) = 0;
};

constexpr int kThreads = 8;  // of FarLookups

TEST_F(FarLookupsTest, CallersTakeTurns) {
  constexpr int kFlood = 1000;
  Gate gate(*far_);
  std::atomic<int> of_flood = 0, of_late = 0, of_joined = 0;
  FarLookups lookups(stack_->artifacts(), absl::Minutes(10));
  for (int i = 0; i < kFlood; ++i)
    lookups.Start("flood", AskForNothing(i),
                  [&](const CacheAnswer&) { ++of_flood; });
  gate.AwaitBegun(kThreads);
  // One who asks for something else, and one for the last that was asked for.
  lookups.Start("late", AskForNothing(kFlood),
                [&](const CacheAnswer&) { ++of_late; });
  lookups.Start("joined", AskForNothing(kFlood - 1),
                [&](const CacheAnswer&) { ++of_joined; });
  // Three threads come free: for one of each.
  gate.OpenTo(3);
  gate.AwaitBegun(kThreads + 3);
  // When these are done, all before them are.
  gate.OpenTo(kThreads + 3);
  gate.AwaitBegun(kThreads + 3 + kThreads);
  EXPECT_EQ(of_late, 1);
  EXPECT_EQ(of_joined, 1);
  EXPECT_EQ(of_flood, kThreads + 2);  // the one that was joined too
  gate.OpenTo(2 * kFlood);
}

TEST_F(FarLookupsTest, ACallerHasItsShareAndLeavesRoomForOthers) {
  Gate gate(*far_);
  std::atomic<int> refused = 0, of_other = 0;
  {
    FarLookups lookups(stack_->artifacts(), absl::Minutes(10));
    for (int i = 0; i < FarLookups::kMostLooks; ++i)
      lookups.Start("flood", AskForNothing(i),
                    [&](const CacheAnswer&) { ++refused; });
    // Those that were not are behind the gate.
    EXPECT_EQ(refused, FarLookups::kMostLooks / 2);
    lookups.Start("other", Ask(), [&](const CacheAnswer& answer) {
      EXPECT_TRUE(answer.hit());
      ++of_other;
    });
    gate.OpenTo(2 * FarLookups::kMostLooks);
  }
  EXPECT_EQ(of_other, 1);
}

}  // namespace
}  // namespace kiln
