// The daemon's keys on disk: how many there may be, and who can use up whose room.
#include "server/key_store.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

class KeyStoreTest : public testing::Test {
 protected:
  std::unique_ptr<KeyStore> Open() {
    auto keys = KeyStore::Open(folder_.path(), {}, clock_);
    EXPECT_TRUE(keys.ok()) << keys.status();
    return *std::move(keys);
  }

  // Rotates until the store refuses; how often it did not.
  static int RotateUntilRefused(KeyStore& keys, const std::string& name) {
    for (int made = 0;; ++made) {
      const absl::Status status = keys.Rotate(name).status();
      if (status.ok() && made < 10'000) continue;
      EXPECT_EQ(ReasonOf(status), ErrorReason::kBadOption) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), "keys revoke")) << status;
      return made;
    }
  }

  static std::string SignerOf(const KeyStore& keys, const std::string& name) {
    return absl::BytesToHexString(
        keys.ring()->SignerOf(name)->public_key().key_id());
  }

  static bool IsBelieved(const KeyStore& keys, const std::string& id) {
    return keys.ring()->trusted()->Find(absl::HexStringToBytes(id)).ok();
  }

  const ShortFolder folder_;
  const RealClock clock_;
};

TEST_F(KeyStoreTest, ANamespacesRotationsTakeNoRoomFromAnybodyElse) {
  const auto keys = Open();
  const std::string own = SignerOf(*keys, "");
  EXPECT_EQ(RotateUntilRefused(*keys, "team-a"), kMaxKeysANamespace);
  // Another namespace and the operator rotate and revoke as before.
  EXPECT_TRUE(keys->Rotate("team-b").ok());
  EXPECT_TRUE(keys->Rotate("").ok());
  EXPECT_TRUE(keys->Revoke("feedfacefeedface").ok());
  EXPECT_TRUE(keys->Revoke(own).ok());
  EXPECT_FALSE(IsBelieved(*keys, own));
}

TEST_F(KeyStoreTest, ANamespaceAtItsBoundCanHaveItsKeysRevoked) {
  const auto keys = Open();
  ASSERT_TRUE(keys->Rotate("team-a").ok());
  const std::string first = SignerOf(*keys, "team-a");
  RotateUntilRefused(*keys, "team-a");
  // The signer gets a successor, although its namespace may not rotate.
  const std::string signer = SignerOf(*keys, "team-a");
  ASSERT_TRUE(keys->Revoke(signer).ok());
  EXPECT_FALSE(IsBelieved(*keys, signer));
  EXPECT_NE(SignerOf(*keys, "team-a"), signer);
  EXPECT_EQ(RotateUntilRefused(*keys, "team-a"), 0);
  // Each old key that is revoked makes room for a new one.
  ASSERT_TRUE(keys->Revoke(first).ok());
  EXPECT_EQ(RotateUntilRefused(*keys, "team-a"), 1);
}

TEST_F(KeyStoreTest, TheOwnKeysBoundIsTheSameAndEndsNoRevocation) {
  const auto keys = Open();
  // The first key was made at the start.
  EXPECT_EQ(RotateUntilRefused(*keys, ""), kMaxKeysANamespace - 1);
  const std::string signer = SignerOf(*keys, "");
  ASSERT_TRUE(keys->Revoke(signer).ok());
  EXPECT_NE(SignerOf(*keys, ""), signer);
}

TEST_F(KeyStoreTest, BoundsAndRevocationsOutliveARestart) {
  std::string revoked;
  {
    const auto keys = Open();
    RotateUntilRefused(*keys, "team-a");
    revoked = SignerOf(*keys, "team-a");
    ASSERT_TRUE(keys->Revoke(revoked).ok());
  }
  const auto keys = Open();
  EXPECT_FALSE(IsBelieved(*keys, revoked));
  EXPECT_EQ(RotateUntilRefused(*keys, "team-a"), 0);
  EXPECT_TRUE(keys->Revoke("feedfacefeedface").ok());
}

}  // namespace
}  // namespace kiln
