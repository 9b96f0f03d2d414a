#include "proto/base/signature.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

TEST(Signature, WhatAKeySignedItsPublicHalfVerifies) {
  const auto key = SigningKey::Generate();
  ASSERT_TRUE(key.ok()) << key.status();
  const std::string signature = key->Sign(kArtifactSigningPrefix, "bytes");
  EXPECT_EQ(signature.size(), size_t{kSignatureBytes});
  EXPECT_TRUE(key->public_key()
                  .Verify(kArtifactSigningPrefix, "bytes", signature)
                  .ok());
}

TEST(Signature, OtherBytesPrefixesKeysAndFlippedBitsAreRefused) {
  const auto key = SigningKey::Generate();
  const auto other = SigningKey::Generate();
  const std::string signature = key->Sign(kArtifactSigningPrefix, "bytes");
  const PublicKey& mine = key->public_key();
  EXPECT_EQ(ReasonOf(mine.Verify(kArtifactSigningPrefix, "bytez", signature)),
            ErrorReason::kArtifactUntrusted);
  EXPECT_FALSE(mine.Verify(kRecordSigningPrefix, "bytes", signature).ok());
  EXPECT_FALSE(other->public_key()
                   .Verify(kArtifactSigningPrefix, "bytes", signature)
                   .ok());
  EXPECT_FALSE(mine.Verify(kArtifactSigningPrefix, "bytes", "").ok());
  for (size_t bit = 0; bit < signature.size() * 8; ++bit) {
    std::string flipped = signature;
    flipped[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    EXPECT_FALSE(mine.Verify(kArtifactSigningPrefix, "bytes", flipped).ok());
  }
}

TEST(Signature, AKeyIsItsBytes) {
  // RFC 8032, section 7.1, test 1: secret and public half.
  const auto key = SigningKey::FromBytes(absl::HexStringToBytes(
      "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"));
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(absl::BytesToHexString(key->public_key().bytes()),
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  EXPECT_EQ(SigningKey::FromBytes(key->secret_bytes())->public_key(),
            key->public_key());
  EXPECT_EQ(key->public_key().key_id().size(), size_t{kKeyIdBytes});
  EXPECT_EQ(*PublicKey::FromBytes(key->public_key().bytes()),
            key->public_key());
}

TEST(Signature, KeysOfAnotherLengthAreRefused) {
  EXPECT_FALSE(SigningKey::FromBytes("short").ok());
  EXPECT_FALSE(PublicKey::FromBytes("short").ok());
}

}  // namespace
}  // namespace kiln
