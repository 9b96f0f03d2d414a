#include "cache/entry_format.h"

#include <gtest/gtest.h>

#include "proto/base/status.h"

namespace kiln {
namespace {

const Digest kKey = Sha256Of("key");

class EntryFormatTest : public testing::Test {
 protected:
  const SigningKey signer_ = *SigningKey::Generate();
  const TrustedKeys trusted_ = {signer_.public_key()};
};

TEST_F(EntryFormatTest, WhatIsSealedOpens) {
  for (const std::string payload : {"", "p", "some bytes"}) {
    const auto opened =
        OpenRecord(kKey, SealRecord(kKey, payload, signer_), trusted_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(*opened, payload);
  }
}

TEST_F(EntryFormatTest, OneFlippedBitAnywhereIsBroken) {
  const std::string record = SealRecord(kKey, "a small payload", signer_);
  for (size_t bit = 0; bit < record.size() * 8; ++bit) {
    std::string flipped = record;
    flipped[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    const auto reason = ReasonOf(OpenRecord(kKey, flipped, trusted_).status());
    EXPECT_TRUE(reason == ErrorReason::kArtifactCorrupt ||
                reason == ErrorReason::kArtifactUntrusted)
        << "bit " << bit << " of " << record.size() * 8;
  }
}

TEST_F(EntryFormatTest, EveryCutAndEveryAddedByteIsBroken) {
  const std::string record = SealRecord(kKey, "payload", signer_);
  for (size_t length = 0; length < record.size(); ++length) {
    EXPECT_EQ(
        ReasonOf(OpenRecord(kKey, record.substr(0, length), trusted_).status()),
        ErrorReason::kArtifactCorrupt);
  }
  EXPECT_EQ(ReasonOf(OpenRecord(kKey, record + "x", trusted_).status()),
            ErrorReason::kArtifactCorrupt);
}

TEST_F(EntryFormatTest, ARecordDoesNotMoveToAnotherKey) {
  const std::string record = SealRecord(kKey, "payload", signer_);
  EXPECT_EQ(ReasonOf(OpenRecord(Sha256Of("other"), record, trusted_).status()),
            ErrorReason::kArtifactCorrupt);
}

TEST_F(EntryFormatTest, AStrangersRecordIsUntrusted) {
  const SigningKey stranger = *SigningKey::Generate();
  const std::string record = SealRecord(kKey, "payload", stranger);
  EXPECT_EQ(ReasonOf(OpenRecord(kKey, record, trusted_).status()),
            ErrorReason::kArtifactUntrusted);
  EXPECT_TRUE(
      OpenRecord(kKey, record, {signer_.public_key(), stranger.public_key()})
          .ok());
}

}  // namespace
}  // namespace kiln
