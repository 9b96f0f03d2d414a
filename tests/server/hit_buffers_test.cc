// Calls that wait for their answer to be taken share it.
#include "server/hit_buffers.h"

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/base/digest.h"

namespace kiln {
namespace {

CacheAnswer Hit(const std::string& entry, const std::string& artifact) {
  CacheAnswer hit;
  hit.outcome = CacheOutcome::kHit;
  hit.entry_id = Sha256Of(entry);
  hit.artifact.set_artifact(artifact);
  return hit;
}

TEST(HitBuffers, AreSharedWhileOneIsHeld) {
  HitBuffers buffers;
  std::vector<ReadyHit> held;
  for (int i = 0; i < 10; ++i) held.push_back(buffers.Share(Hit("a", "bytes")));
  for (const ReadyHit& hit : held) EXPECT_EQ(hit.record, held[0].record);
  EXPECT_EQ(held[0].record.use_count(), 10);
  wire::SignedArtifact read;
  ASSERT_TRUE(read.ParseFromString(std::string(held[0].artifact)));
  EXPECT_EQ(read.artifact(), "bytes");
}

TEST(HitBuffers, OfOtherBytesAreOthers) {
  HitBuffers buffers;
  const ReadyHit first = buffers.Share(Hit("a", "bytes"));
  const ReadyHit second = buffers.Share(Hit("a", "other"));
  EXPECT_NE(first.record, second.record);
  EXPECT_NE(first.artifact, second.artifact);
  // Whoever comes now shares the later ones.
  EXPECT_EQ(buffers.Share(Hit("a", "other")).record, second.record);
  EXPECT_NE(buffers.Share(Hit("b", "other")).record, second.record);
}

TEST(HitBuffers, AreNotKeptAlive) {
  HitBuffers buffers;
  for (int i = 0; i < 10'000; ++i) {
    const std::weak_ptr<const std::string> gone =
        buffers.Share(Hit(std::to_string(i), "bytes")).record;
    EXPECT_TRUE(gone.expired());
  }
  EXPECT_LE(buffers.known(), 64u);
}

}  // namespace
}  // namespace kiln
