// One bit flipped in each of many far records, in a real Redis and at a peer: all are
// found, none is served.
//
//   flipped_far_test [SEED [RECORDS]]    half of them are entries, half are units
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "cache/cache_stack.h"
#include "cache/far/peer_far_store.h"
#include "cache/far/redis_far_store.h"
#include "gtest/gtest.h"
#include "proto/base/seal.h"
#include "tests/support/fake_peer.h"
#include "tests/support/key_named.h"
#include "tests/support/map_far_store.h"
#include "tests/support/redis_server.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

uint64_t seed = 1;
int records = 500;

constexpr int64_t kMaxRecordBytes = 1 << 20;
// Long enough that only what never comes is late.
SteadyTime Soon() { return After(SteadyNow(), absl::Seconds(60)); }

CompileKey KeyNumber(int number) {
  return KeyNamed(absl::StrCat("key ", number), "default");
}
Digest KeyOf(int number) { return KeyNumber(number).digest; }
Digest UnitOf(int number) { return Sha256Of(absl::StrCat("unit ", number)); }

class FlippedFar : public testing::Test {
 protected:
  // A daemon's cache in memory, in front of `far`.
  std::unique_ptr<CacheStack> Open(const SigningKey& signer,
                                   std::shared_ptr<FarStore> far) {
    CacheOptions options;
    options.far_store = std::move(far);
    options.far = {.budget = absl::Seconds(60),
                   .queue_bytes = int64_t{1} << 30,
                   .max_record_bytes = kMaxRecordBytes};
    auto stack = CacheStack::Open(
        options,
        std::make_shared<KeyRing>(signer, TrustedKeys{maker_.public_key()}),
        clock_);
    EXPECT_TRUE(stack.ok()) << stack.status();
    return *std::move(stack);
  }

  static int64_t Counter(const CacheStack& stack, const std::string& name) {
    const auto rows = stack.Counters();
    return std::map<std::string, int64_t>(rows.begin(), rows.end()).at(name);
  }

  NewEntry EntryOf(int number) const {
    NewEntry entry;
    entry.key = KeyNumber(number);
    entry.cache_namespace = "default";
    wire::ArtifactEnvelope envelope;
    envelope.set_cache_namespace("default");
    envelope.set_compile_key(KeyOf(number).ToBytes());
    envelope.set_entry_id(EntryId(KeyOf(number), {}, {}).ToBytes());
    entry.artifact =
        SealArtifact(maker_, envelope, absl::StrCat("artifact ", number));
    return entry;
  }

  // Stored far by a daemon that is gone.
  void Fill(const std::shared_ptr<FarStore>& far) {
    const auto stack = Open(maker_, far);
    wire::ObjectCode object;
    for (int i = 0; i < records / 2; ++i) {
      ASSERT_TRUE(stack->artifacts().Insert(EntryOf(i)).ok());
      object.set_image(absl::StrCat("image ", i));
      ASSERT_TRUE(stack->units().Insert(UnitOf(i), object, {}).ok());
      // The writer's queue holds some thousand.
      while (Counter(*stack, "far.writes") < 2 * i - 2000) {
      }
    }
    while (Counter(*stack, "far.writes") < records / 2 * 2) {
    }
  }

  void Flip(FarStore& far, const FarName& name) {
    auto record = far.Get(name, Soon());
    ASSERT_TRUE(record.ok()) << record.status();
    const size_t bit = random_() % (record->size() * 8);
    (*record)[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    std::string hint;
    if (name.entry.has_value()) hint = (*far.Hints(name.key, Soon()))[0].hint;
    ASSERT_TRUE(far.Put(name, hint, *record, Soon()).ok());
  }

  static int ServedTo(CacheStack& reader, int number) {
    reader.units().Fetch({UnitOf(number)});
    return (reader.artifacts()
                    .LookupFar(KeyOf(number), {{}, {}, 0, "default"}, Soon())
                    .answer.hit()
                ? 1
                : 0) +
           (reader.units().Lookup(UnitOf(number)).has_value() ? 1 : 0);
  }

  // `store` is where the records lie, `through` what a reader asks.
  void ExpectAllFound(const std::shared_ptr<FarStore>& store,
                      const std::shared_ptr<FarStore>& through) {
    Fill(store);
    EXPECT_EQ(ServedTo(*Open(SigningKey::Generate().value(), through), 0), 2);
    for (int i = 0; i < records / 2; ++i) {
      Flip(*store, {KeyOf(i), EntryId(KeyOf(i), {}, {})});
      Flip(*store, {UnitOf(i), std::nullopt});
    }
    const auto reader = Open(SigningKey::Generate().value(), through);
    int served = 0;
    for (int i = 0; i < records / 2; ++i) served += ServedTo(*reader, i);
    const int64_t found = Counter(*reader, "far.refused");
    EXPECT_EQ(served, 0);
    EXPECT_EQ(found, records / 2 * 2);
    EXPECT_EQ(Counter(*reader, "far.hits"), 0);
    EXPECT_EQ(Counter(*reader, "far.errors"), 0);
    EXPECT_EQ(Counter(*reader, "cache.artifacts.entries"), 0);
    std::cout << records / 2 * 2 << " records with a flipped bit, " << found
              << " found, " << served << " served\n";
  }

  const SigningKey maker_ = *SigningKey::Generate();
  const FakeClock clock_;
  std::mt19937_64 random_{seed};
};

TEST_F(FlippedFar, InARedisAllAreFoundAndNoneIsServed) {
  RedisServer redis;
  RedisFarStore::Options options;
  options.seeds = {redis.place()};
  options.ttl = absl::Hours(1);
  options.max_record_bytes = kMaxRecordBytes;
  const auto store = std::make_shared<RedisFarStore>(options);
  ExpectAllFound(store, store);
}

TEST_F(FlippedFar, AtAPeerAllAreFoundAndNoneIsServed) {
  const ShortFolder folder;
  TestCa ca(folder.path(), "ca");
  const TestCa::Files own = ca.Issue("own.example", "own");
  const auto store = std::make_shared<MapFarStore>();
  FakePeer peer(*store, ca.Issue("peer.example", "peer"), ca.file());
  const auto through = PeerFarStore::Open(
      {.address = peer.address(),
       .tls = {.ca = ca.file(), .certificate = own.certificate, .key = own.key},
       .max_record_bytes = kMaxRecordBytes});
  ASSERT_TRUE(through.ok()) << through.status();
  ExpectAllFound(store, *through);
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) kiln::seed = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) kiln::records = std::atoi(argv[2]);
  return RUN_ALL_TESTS();
}
