#include "server/far_lookups.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "cache/cache_stack.h"
#include "proto/base/seal.h"
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
    entry.key.digest = kKey;
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

  const Digest kKey = Sha256Of("key");
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
    lookups.Start(Ask(), [&](const CacheAnswer& answer) {
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
    lookups.Start(Ask({value}),
                  [](const CacheAnswer& answer) { EXPECT_TRUE(answer.hit()); });
  }
  EXPECT_EQ(far_->hints_asked(), 1);
}

TEST_F(FarLookupsTest, ThoseWhoWaitAtTheEndAreAnswered) {
  std::atomic<int> answered = 0;
  {
    FarLookups lookups(stack_->artifacts(), absl::Seconds(60));
    for (int i = 0; i < 100; ++i)
      lookups.Start(Ask({i}), [&](const CacheAnswer&) { ++answered; });
  }
  EXPECT_EQ(answered, 100);
}

}  // namespace
}  // namespace kiln
