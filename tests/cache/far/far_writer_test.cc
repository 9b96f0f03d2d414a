#include "cache/far/far_writer.h"

#include <gtest/gtest.h>

#include "tests/support/map_far_store.h"

namespace kiln {
namespace {

// A store whose writes wait until they are let through.
class SlowStore final : public FarStore {
 public:
  absl::StatusOr<std::vector<FarHint>> Hints(const Digest&,
                                             SteadyTime) override {
    return std::vector<FarHint>();
  }
  absl::StatusOr<std::string> Get(const FarName&, SteadyTime) override {
    return absl::NotFoundError("none");
  }
  absl::Status Put(const FarName&, absl::string_view, absl::string_view,
                   SteadyTime) override {
    MutexLock lock(&mu_);
    began_ = true;
    changed_.SignalAll();
    while (!open_) changed_.Wait(&mu_);
    return absl::OkStatus();
  }
  bool WasLeftAlone(const absl::Status&) const override { return false; }

  void AwaitFirst() {
    MutexLock lock(&mu_);
    while (!began_) changed_.Wait(&mu_);
  }
  void Open() {
    MutexLock lock(&mu_);
    open_ = true;
    changed_.SignalAll();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool began_ ABSL_GUARDED_BY(mu_) = false;
  bool open_ ABSL_GUARDED_BY(mu_) = false;
};

FarWriter::Write Unit(const std::string& name, size_t bytes) {
  return {{Sha256Of(name), std::nullopt},
          "",
          "",
          std::make_shared<const std::string>(bytes, 'x')};
}

TEST(FarWriter, NobodyWaitsForAStoreAndWhatDoesNotFitIsDropped) {
  SlowStore store;
  FarCounts counts;
  {
    FarWriter writer(store, std::make_shared<KeyRing>(*SigningKey::Generate()),
                     {.queue_bytes = 1000, .max_record_bytes = 1 << 20},
                     counts);
    writer.Queue(Unit("first", 10));
    store.AwaitFirst();  // out of the queue, and under way
    writer.Queue(Unit("a", 600));
    writer.Queue(Unit("too much", 600));
    writer.Queue(Unit("b", 400));
    writer.Queue(Unit("one byte", 1));
    EXPECT_EQ(counts.writes_dropped, 2);
    store.Open();
  }
  // The end writes what is queued.
  EXPECT_EQ(counts.writes, 3);
  EXPECT_EQ(counts.writes_dropped, 2);
}

TEST(FarWriter, WhatIsTooLargeOrFailsIsDroppedAndCounted) {
  MapFarStore store;
  FarCounts counts;
  {
    FarWriter writer(store, std::make_shared<KeyRing>(*SigningKey::Generate()),
                     {.queue_bytes = 1 << 20, .max_record_bytes = 500}, counts);
    writer.Queue(Unit("large", 1000));
    writer.Queue(Unit("small", 10));
    store.AwaitRecords(1);
    store.Fail(absl::DeadlineExceededError("late"));
    writer.Queue(Unit("late", 10));
  }
  EXPECT_EQ(counts.writes, 1);
  EXPECT_EQ(counts.writes_dropped, 2);
  EXPECT_EQ(counts.timeouts, 1);
}

TEST(FarWriter, ANamespaceWritesItsBudgetAndOthersGoOn) {
  MapFarStore store;
  FarCounts counts;
  {
    FarWriter writer(store, std::make_shared<KeyRing>(*SigningKey::Generate()),
                     {.queue_bytes = 1 << 20,
                      .max_record_bytes = 1 << 20,
                      .namespace_budgets = {{"team-a", 3000}}},
                     counts);
    const auto write = [&writer](const std::string& name,
                                 const std::string& cache_namespace) {
      FarWriter::Write entry = Unit(name, 1000);
      entry.name.entry = Sha256Of(name);
      entry.cache_namespace = cache_namespace;
      writer.Queue(std::move(entry));
    };
    for (const char* name : {"1", "2", "3", "4"}) write(name, "team-a");
    for (const char* name : {"5", "6", "7", "8"}) write(name, "team-b");
  }
  // With its envelope each takes a little more than a thousand bytes.
  EXPECT_EQ(counts.over_budget, 2);
  EXPECT_EQ(counts.writes, 6);
  EXPECT_EQ(counts.writes_dropped, 0);
}

}  // namespace
}  // namespace kiln
