// Lookups of a key with many conditions: what is read once, and what is not tried by
// threads that have no time.
#include "cache/ready_index.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/cache_stack.h"
#include "cache/entry_id.h"
#include "cache/guard_match.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"
#include "proto/graph.pb.h"
#include "tests/support/key_named.h"

namespace kiln {
namespace {

using Code = std::vector<std::pair<wire::SymOp, int64_t>>;

void Add(wire::GuardSet& guards, const Code& code) {
  wire::SymExpr& condition = *guards.add_symbols()->mutable_condition();
  for (const auto& [op, value] : code) {
    wire::SymInstruction& in = *condition.add_code();
    in.set_op(op);
    in.set_value(value);
  }
}

// s0 == value, in so many instructions: an odd number.
wire::GuardSet Equals(int64_t value, int instructions = 3) {
  Code code = {{wire::SYM_OP_SYMBOL, 0}};
  for (int i = 3; i < instructions; i += 2) {
    code.push_back({wire::SYM_OP_CONSTANT, 0});
    code.push_back({wire::SYM_OP_ADD, 0});
  }
  code.push_back({wire::SYM_OP_CONSTANT, value});
  code.push_back({wire::SYM_OP_EQ, 0});
  wire::GuardSet guards;
  Add(guards, code);
  return guards;
}

TEST(GuardPrograms, HoldAsTheirSetDoes) {
  const std::vector<int64_t> values = {4, 0};
  std::vector<wire::GuardSet> sets = {{}, Equals(4), Equals(5), Equals(4, 9)};
  wire::GuardSet both = Equals(4);
  both.MergeFrom(Equals(5));
  sets.push_back(both);
  for (const Code& code :
       std::vector<Code>{{},
                         {{wire::SYM_OP_UNSPECIFIED, 0}},
                         {{wire::SYM_OP_SYMBOL, 1}},
                         {{wire::SYM_OP_SYMBOL, 2}},
                         {{wire::SYM_OP_SYMBOL, -1}},
                         {{wire::SYM_OP_SYMBOL, INT64_MAX}},
                         {{wire::SYM_OP_SYMBOL, 0},
                          {wire::SYM_OP_SYMBOL, 1},
                          {wire::SYM_OP_FLOORDIV, 0}},
                         {{wire::SYM_OP_SYMBOL, 0}, {wire::SYM_OP_NOT, 0}}}) {
    sets.push_back(Equals(4));
    Add(sets.back(), code);
  }
  int held = 0;
  for (const wire::GuardSet& set : sets) {
    const bool holds = GuardPrograms(set).Hold(values);
    EXPECT_EQ(holds, GuardsHold(set, values)) << set.ShortDebugString();
    held += holds ? 1 : 0;
  }
  EXPECT_EQ(held, 3);
  EXPECT_EQ(GuardPrograms(both).instructions(), 6);
  Add(both, {{wire::SYM_OP_ADD, 0}});
  EXPECT_EQ(GuardPrograms(both).instructions(), 0);
}

class ReadyIndexTest : public testing::Test {
 protected:
  void SetUp() override {
    auto stack = CacheStack::Open(
        {}, std::make_shared<KeyRing>(*SigningKey::Generate()), clock_);
    ASSERT_TRUE(stack.ok()) << stack.status();
    stack_ = *std::move(stack);
  }

  ArtifactCache& cache() { return stack_->artifacts(); }

  void Insert(const wire::GuardSet& guards,
              const std::vector<std::string>& tuned = {}) {
    NewEntry entry;
    entry.key = key_;
    entry.artifact.set_artifact("bytes");
    entry.guards = guards;
    entry.tuned = tuned;
    ASSERT_TRUE(cache().Insert(std::move(entry)).ok());
  }

  bool IsInMemory(int64_t value) {
    return cache()
        .LookupInMemory(key_.digest, {{value}, decisions_}, &missed_)
        .has_value();
  }
  CacheAnswer Lookup(int64_t value, const ReadyIndex* missed = nullptr) {
    return cache().Lookup(key_.digest, {{value}, decisions_}, missed);
  }

  const CompileKey key_ = KeyNamed("key");
  const TuningDecisions decisions_;
  std::shared_ptr<const ReadyIndex> missed_;
  FakeClock clock_;
  std::unique_ptr<CacheStack> stack_;
};

TEST_F(ReadyIndexTest, IsReadOnceForAllLookups) {
  Insert(Equals(1));
  Insert(Equals(2));
  EXPECT_FALSE(IsInMemory(7));
  const auto first = missed_;
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->entries.size(), 2u);
  EXPECT_FALSE(IsInMemory(8));
  EXPECT_EQ(missed_, first);
  EXPECT_TRUE(Lookup(1).hit());
  EXPECT_TRUE(IsInMemory(2));
  EXPECT_FALSE(IsInMemory(9));
  EXPECT_EQ(missed_, first);
}

TEST_F(ReadyIndexTest, WhatWasTriedInMemoryIsNotTriedAgain) {
  Insert(Equals(1));
  Insert(Equals(2));
  ASSERT_FALSE(IsInMemory(7));
  EXPECT_EQ(Lookup(7).tried, 2);
  const CacheAnswer again = Lookup(7, missed_.get());
  EXPECT_EQ(again.outcome, CacheOutcome::kGuardMiss);
  EXPECT_EQ(again.tried, 0);
  // What came meanwhile is in another index.
  Insert(Equals(7));
  EXPECT_TRUE(Lookup(7, missed_.get()).hit());
}

TEST_F(ReadyIndexTest, NothingIsMissedWhereAnEntryServesOrThereIsNone) {
  EXPECT_FALSE(IsInMemory(1));
  Insert(Equals(1));
  EXPECT_TRUE(IsInMemory(1));
  EXPECT_EQ(missed_, nullptr);
}

// The bound is of all entries together.
TEST_F(ReadyIndexTest, OfManyInstructionsIsNotTriedAtOnce) {
  static_assert(kMaxEntriesPerKey == 16);
  for (int i = 0; i < kMaxEntriesPerKey; ++i) Insert(Equals(i, 255));
  EXPECT_TRUE(IsInMemory(0));
  EXPECT_FALSE(IsInMemory(-1));
  ASSERT_NE(missed_, nullptr);
  EXPECT_EQ(missed_->steps, 16 * 255);
  missed_ = nullptr;
  // 32 instructions more, in place of the first.
  Insert(Equals(16, 255 + 32));
  EXPECT_FALSE(IsInMemory(16));
  EXPECT_FALSE(IsInMemory(1));
  EXPECT_FALSE(IsInMemory(-1));
  EXPECT_EQ(missed_, nullptr);
  EXPECT_TRUE(Lookup(16).hit());
  EXPECT_TRUE(Lookup(1).hit());
  const CacheAnswer none = Lookup(-1);
  EXPECT_EQ(none.outcome, CacheOutcome::kGuardMiss);
  EXPECT_EQ(none.tried, 16);
}

TEST_F(ReadyIndexTest, OfManyChoicesIsNotTriedAtOnce) {
  const auto most = static_cast<size_t>((kMostIndexStepsAtOnce - 3) / 4);
  const std::vector<std::string> tuned(most, "k ");
  Insert(Equals(1), tuned);
  EXPECT_TRUE(IsInMemory(1));
  Insert(Equals(2));
  EXPECT_FALSE(IsInMemory(1));
  EXPECT_FALSE(IsInMemory(2));
  EXPECT_TRUE(Lookup(1).hit());
  EXPECT_TRUE(Lookup(2).hit());
}

TEST_F(ReadyIndexTest, OfALargeRecordIsNotReadAtOnce) {
  wire::GuardSet guards = Equals(1);
  guards.mutable_symbols(0)->set_origin(
      std::string(kMostIndexBytesAtOnce / 2, 'o'));
  Insert(guards);
  EXPECT_TRUE(IsInMemory(1));
  guards.MergeFrom(Equals(1));
  guards.mutable_symbols(1)->set_origin(guards.symbols(0).origin());
  Insert(guards);
  EXPECT_FALSE(IsInMemory(1));
  EXPECT_FALSE(IsInMemory(2));
  EXPECT_EQ(missed_, nullptr);
  EXPECT_TRUE(Lookup(1).hit());
}

}  // namespace
}  // namespace kiln
