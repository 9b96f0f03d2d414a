#include "proto/base/trusted_keys.h"

#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "proto/artifact.pb.h"
#include "proto/base/key_ring.h"
#include "proto/base/seal.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

wire::SignedArtifact SealedIn(const std::string& cache_namespace,
                              const SigningKey& key) {
  wire::ArtifactEnvelope envelope;
  envelope.set_cache_namespace(cache_namespace);
  return SealArtifact(key, envelope, "bytes");
}

TEST(TrustedKeys, AKeyCountsWhereItWasAdded) {
  const SigningKey team = *SigningKey::Generate();
  TrustedKeys keys;
  keys.Add(team.public_key(), "team-a");
  EXPECT_TRUE(OpenSeal(SealedIn("team-a", team), keys).ok());
  EXPECT_EQ(ReasonOf(OpenSeal(SealedIn("team-b", team), keys).status()),
            ErrorReason::kArtifactUntrusted);
  // What all share takes a key for all.
  EXPECT_FALSE(keys.CheckCounts(team.public_key().key_id(), "").ok());
  keys.Add(team.public_key());
  EXPECT_TRUE(OpenSeal(SealedIn("team-b", team), keys).ok());
  EXPECT_TRUE(keys.CheckCounts(team.public_key().key_id(), "").ok());
}

TEST(TrustedKeys, ARevokedKeyNeverCountsAgain) {
  const SigningKey key = *SigningKey::Generate();
  TrustedKeys keys = {key.public_key()};
  keys.Revoke(key.public_key().key_id());
  keys.Add(key.public_key());
  EXPECT_FALSE(keys.Find(key.public_key().key_id()).ok());
  TrustedKeys configured = {key.public_key()};
  configured.Merge(keys);
  EXPECT_EQ(ReasonOf(OpenSeal(SealedIn("", key), configured).status()),
            ErrorReason::kArtifactUntrusted);
  TrustedKeys other_way = keys;
  other_way.Merge({key.public_key()});
  EXPECT_FALSE(other_way.Find(key.public_key().key_id()).ok());
}

TEST(TrustedKeys, AnUnknownSignersKeyCanBeNamedAndARevokedOneCannot) {
  const SigningKey key = *SigningKey::Generate();
  const auto said = [&](const TrustedKeys& keys) {
    return std::string(OpenSeal(SealedIn("", key), keys).status().message());
  };
  TrustedKeys keys;
  EXPECT_TRUE(absl::StrContains(said(keys), "(--public-key, KILN_PUBLIC_KEY)"))
      << said(keys);
  keys.Revoke(key.public_key().key_id());
  EXPECT_FALSE(absl::StrContains(said(keys), "--public-key")) << said(keys);
  EXPECT_TRUE(absl::StrContains(said(keys), "revoked")) << said(keys);
}

TEST(KeyRing, TheKeyBeforeIsBelievedUntilItIsRevoked) {
  const SigningKey first = *SigningKey::Generate();
  const SigningKey second = *SigningKey::Generate();
  KeyRing ring(first);
  ring.SetSigner("", second);
  EXPECT_EQ(ring.SignerOf("team-a")->public_key(), second.public_key());
  EXPECT_TRUE(ring.trusted()->Find(first.public_key().key_id()).ok());
  ring.Revoke(first.public_key().key_id());
  EXPECT_FALSE(ring.trusted()->Find(first.public_key().key_id()).ok());
  ring.SetSigner("team-a", first);
  EXPECT_FALSE(ring.trusted()->Find(first.public_key().key_id()).ok());
}

}  // namespace
}  // namespace kiln
