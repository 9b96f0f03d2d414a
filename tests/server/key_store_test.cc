// The daemon's keys on disk: how many there may be, and who can use up whose room.
#include "server/key_store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "proto/key/cache_namespace.h"
#include "server/access/open_folder.h"
#include "server/key_file.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

// The lines of this process' log while it lives.
class TakenLog {
 public:
  TakenLog() {
    EXPECT_TRUE(ConfigureLog({.sink = [this](absl::string_view line) {
                  absl::StrAppend(&text_, line, "\n");
                }}).ok());
  }
  ~TakenLog() { EXPECT_TRUE(ConfigureLog({}).ok()); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class KeyStoreTest : public testing::Test {
 protected:
  std::unique_ptr<KeyStore> Open() {
    auto keys = KeyStore::Open(*OpenFolder::Open(folder_.path()), {}, clock_);
    EXPECT_TRUE(keys.ok()) << keys.status();
    (*keys)->KeepList();
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

  std::string List() const { return folder_.path() + "/keys"; }

  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    return bytes.str();
  }

  static void Write(const std::string& path, absl::string_view bytes) {
    std::ofstream(path, std::ios::trunc) << bytes;
  }

  void ExpectRefused(const std::string& what) {
    const absl::Status status =
        KeyStore::Open(*OpenFolder::Open(folder_.path()), {}, clock_).status();
    EXPECT_EQ(ReasonOf(status), ErrorReason::kStorage)
        << what << ": " << status;
    EXPECT_TRUE(absl::StrContains(status.message(), List())) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "backup")) << status;
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
  EXPECT_TRUE(keys->Revoke("feedfacefeedface", /*unknown=*/true).ok());
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
  EXPECT_TRUE(keys->Revoke("feedfacefeedface", /*unknown=*/true).ok());
}

TEST_F(KeyStoreTest, AnEmptyOrCutListIsRefused) {
  std::string whole;
  {
    const auto keys = Open();
    const std::string before = SignerOf(*keys, "");
    ASSERT_TRUE(keys->Rotate("team-a").ok());
    ASSERT_TRUE(keys->Revoke(before).ok());
    ASSERT_TRUE(keys->Revoke("feedfacefeedface", /*unknown=*/true).ok());
    whole = Read(List());
  }
  for (size_t length = 0; length < whole.size(); ++length) {
    Write(List(), whole.substr(0, length));
    ExpectRefused(absl::StrCat("the first ", length, " bytes"));
  }
  // A row less, as an editor would leave it.
  const size_t row = whole.rfind("keys {");
  Write(List(), absl::StrCat(whole.substr(0, row)));
  ExpectRefused("a row less");
  Write(List(), whole);
  EXPECT_FALSE(IsBelieved(*Open(), "feedfacefeedface"));
}

TEST_F(KeyStoreTest, AKeyThatIsNotKnownIsRevokedInAdvanceAlone) {
  const auto keys = Open();
  const absl::Status unknown = keys->Revoke("feedfacefeedface").status();
  EXPECT_TRUE(absl::IsNotFound(unknown)) << unknown;
  const std::string own_id =
      absl::BytesToHexString(keys->ring()->SignerOf("")->public_key().key_id());
  for (const std::string& word :
       {std::string("feedfacefeedface"), own_id + " (namespace *)",
        std::string("--unknown")}) {
    EXPECT_TRUE(absl::StrContains(unknown.message(), word)) << unknown;
  }
  EXPECT_EQ(keys->List().size(), 1);
  EXPECT_TRUE(keys->Revoke("feedfacefeedface", /*unknown=*/true).ok());
  EXPECT_EQ(keys->List().size(), 2);
  // It is known from then on, and revoked is revoked.
  EXPECT_TRUE(keys->Revoke("feedfacefeedface").ok());
  EXPECT_EQ(keys->List().size(), 2);
}

// Which was signing.key signs indexes, after it has been replaced too; others' do not.
TEST_F(KeyStoreTest, ARevocationTellsWhatSignsNowAndWhetherIndexesAreLost) {
  const auto keys = Open();
  const std::string first = SignerOf(*keys, "");
  ASSERT_TRUE(keys->Rotate("").ok());
  ASSERT_TRUE(keys->Rotate("team-a").ok());
  const auto replaced = keys->Revoke(first);
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_TRUE(replaced->signed_indexes);
  EXPECT_TRUE(replaced->signs_now.empty());
  const auto own = keys->Revoke(SignerOf(*keys, ""));
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_TRUE(own->signed_indexes);
  ASSERT_EQ(own->signs_now.size(), 1u);
  EXPECT_EQ(own->signs_now[0].cache_namespace(), "");
  EXPECT_EQ(absl::BytesToHexString(own->signs_now[0].key_id()),
            SignerOf(*keys, ""));
  const auto team = keys->Revoke(SignerOf(*keys, "team-a"));
  ASSERT_TRUE(team.ok()) << team.status();
  EXPECT_FALSE(team->signed_indexes);
  ASSERT_EQ(team->signs_now.size(), 1u);
  EXPECT_EQ(team->signs_now[0].cache_namespace(), "team-a");
  const auto strange = keys->Revoke("feedfacefeedface", /*unknown=*/true);
  ASSERT_TRUE(strange.ok()) << strange.status();
  EXPECT_FALSE(strange->signed_indexes);
  EXPECT_TRUE(strange->signs_now.empty());
}

TEST_F(KeyStoreTest, TheListIsThereFromTheFirstStart) {
  const std::string own = SignerOf(*Open(), "");
  Write(List(), "");
  ExpectRefused("an empty list of a daemon that never rotated");
  std::filesystem::remove(List());
  TakenLog log;
  EXPECT_EQ(SignerOf(*Open(), ""), own);
  EXPECT_TRUE(absl::StrContains(log.text(), "keys.list_missing")) << log.text();
}

TEST_F(KeyStoreTest, AListOfAnEarlierBuildIsReadAndGetsAChecksum) {
  std::string revoked;
  {
    const auto keys = Open();
    revoked = SignerOf(*keys, "");
    ASSERT_TRUE(keys->Revoke(revoked).ok());
  }
  const std::string whole = Read(List());
  ASSERT_EQ(whole[0], '#');
  Write(List(), whole.substr(whole.find('\n') + 1));
  EXPECT_FALSE(IsBelieved(*Open(), revoked));
  EXPECT_EQ(Read(List()), whole);
}

TEST_F(KeyStoreTest, ASigningKeyThatIsMadeAnewIsTold) {
  TakenLog log;
  const std::string first = SignerOf(*Open(), "");
  ASSERT_TRUE(Open()->Rotate("team-a").ok());
  EXPECT_EQ(log.text(), "");
  for (const char* name : {"", "team-a"}) {
    const std::string file = absl::StrCat(folder_.path(), "/signing",
                                          *name == 0 ? "" : ".", name, ".key");
    ASSERT_TRUE(std::filesystem::remove(file));
    const std::string made = SignerOf(*Open(), name);
    EXPECT_TRUE(absl::StrContains(
        log.text(),
        absl::StrCat("keys.signing_key_replaced file=", file, " key=", made)))
        << log.text();
  }
  EXPECT_NE(SignerOf(*Open(), ""), first);
}

TEST_F(KeyStoreTest, WhatADaemonLeftWhileItMadeAKeyIsRemoved) {
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
  const std::string left = absl::StrCat(folder_.path(), "/signing.key.", gone);
  const std::string other =
      absl::StrCat(folder_.path(), "/signing.key.", getpid());
  for (const std::string& path : {left, other}) Write(path, "half a key");
  Open();
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_FALSE(std::filesystem::exists(other));  // its name was needed
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/signing.key"));
}

TEST(KeyFile, HoldsAllKeysThatThereMayBe) {
  const ShortFolder folder;
  const OpenFolder open = *OpenFolder::Open(folder.path());
  wire::KeyFile all;
  const auto add = [&all](int number) -> wire::DaemonKey& {
    wire::DaemonKey& key = *all.add_keys();
    key.set_key_id(absl::StrCat(absl::Hex(number, absl::kZeroPad8)));
    key.set_public_key(std::string(32, '\xff'));  // four letters a byte
    key.set_cache_namespace(std::string(kMaxNamespace, 'n'));
    key.set_made_unix_ms(1'700'000'000'000);
    return key;
  };
  int number = 0;
  while (number < kMaxKeysANamespace * kMaxNamespacesWithKeys) add(number++);
  for (int i = 0; i < kMaxRevokedKeys; ++i)
    add(number++).set_revoked_unix_ms(1'700'000'000'000);
  ASSERT_TRUE(WriteKeyFile(open, all).ok());
  const auto read = ReadKeyFile(open);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->keys.keys_size(), number);
}

}  // namespace
}  // namespace kiln
