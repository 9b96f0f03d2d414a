#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"
#include "proto/key/token_name.h"
#include "server/access/audit_log.h"
#include "server/access/caller.h"
#include "server/access/open_folder.h"
#include "server/access/private_file.h"
#include "server/access/token_store.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

unsigned ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

TEST(Caller, ARoleHoldsInItsNamespacesAndForLesserActs) {
  const Caller caller = {"token:ci",
                         {{Role::kSubmitter, {"team-a"}},
                          {Role::kReader, {std::string(kEveryNamespace)}}}};
  EXPECT_TRUE(caller.Require(Role::kSubmitter, "team-a", "compile").ok());
  EXPECT_TRUE(caller.Require(Role::kReader, "team-a", "lookup").ok());
  EXPECT_TRUE(caller.Require(Role::kReader, "team-b", "lookup").ok());
  EXPECT_TRUE(caller.Require(Role::kReader, kEveryNamespace, "x").ok());
  EXPECT_FALSE(caller.Require(Role::kPublisher, "team-a", "tune").ok());
  EXPECT_FALSE(caller.Require(Role::kSubmitter, kEveryNamespace, "x").ok());
  const absl::Status refused =
      caller.Require(Role::kSubmitter, "team-b", "compile");
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kPermission);
  EXPECT_EQ(refused.message(),
            "compile: caller token:ci has submitter in team-a, reader in *; "
            "this requires "
            "the role submitter in namespace team-b, which the daemon's owner "
            "gives in an [[access]] table or with a token (`compilectl tokens "
            "add`)");
  EXPECT_TRUE(absl::StartsWith(
      Caller{"plain"}.Require(Role::kReader, "a", "lookup").message(),
      "lookup: caller plain has no role; this requires the role reader in "
      "namespace a, "));
}

struct Tokens {
  Tokens() { Open(); }
  void Open() {
    auto opened = TokenStore::Open(*OpenFolder::Open(folder.path()), clock);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store = *std::move(opened);
  }

  const ShortFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/tokens");
  FakeClock clock;
  std::unique_ptr<TokenStore> store;
};

const Grant kGrant = {Role::kSubmitter, {"team-a"}};

TEST(TokenStore, WhoShowsATokenIsItsHolder) {
  Tokens t;
  const auto token = t.store->Make("ci", kGrant, absl::Hours(1));
  ASSERT_TRUE(token.ok()) << token.status();
  for (const bool again : {false, true}) {
    if (again) t.Open();
    const auto caller = t.store->CallerOf(*token);
    ASSERT_TRUE(caller.ok()) << caller.status();
    EXPECT_EQ(caller->identity, "token:ci");
    EXPECT_EQ(caller->grants, std::vector<Grant>{kGrant});
  }
}

TEST(TokenStore, TheFileIsItsOwnersAndHasNoSecret) {
  Tokens t;
  const auto token = t.store->Make("ci", kGrant, absl::Hours(1));
  EXPECT_EQ(ModeOf(t.path), 0600u);
  const std::string secret = token->substr(token->find('.') + 1);
  EXPECT_EQ(secret.size(), 43u);
  EXPECT_FALSE(absl::StrContains(Contents(t.path), secret));
  EXPECT_EQ(t.store->List().at(0).secret_sha256(), "");
  chmod(t.path.c_str(), 0640);
  EXPECT_EQ(
      ReasonOf(TokenStore::Open(*OpenFolder::Open(t.folder.path()), t.clock)
                   .status()),
      ErrorReason::kPermission);
}

TEST(TokenStore, ATokenEndsWithItsTimeOrWhenItIsRevoked) {
  Tokens t;
  const auto first = t.store->Make("first", kGrant, absl::Hours(1));
  const auto second = t.store->Make("second", kGrant, absl::Hours(2));
  t.clock.Advance(absl::Hours(1));
  const absl::Status expired = t.store->CallerOf(*first).status();
  EXPECT_EQ(ReasonOf(expired), ErrorReason::kUnauthenticated);
  EXPECT_EQ(expired.message(), "token first: expired at 2026-01-01T01:00:00Z");
  EXPECT_TRUE(t.store->CallerOf(*second).ok());
  EXPECT_TRUE(t.store->Revoke("second").ok());
  for (const bool again : {false, true}) {
    if (again) t.Open();
    EXPECT_EQ(ReasonOf(t.store->CallerOf(*second).status()),
              ErrorReason::kUnauthenticated);
  }
  EXPECT_TRUE(absl::IsNotFound(t.store->Revoke("second")));
  // A revoked name is free again, and its old token still is not good.
  EXPECT_TRUE(t.store->Make("second", kGrant, absl::Hours(2)).ok());
  EXPECT_FALSE(t.store->CallerOf(*second).ok());
}

TEST(TokenStore, WhatIsNoTokenIsRefusedAndNotRepeated) {
  Tokens t;
  const auto token = t.store->Make("ci", kGrant, absl::Hours(1));
  for (const std::string& bad :
       {std::string(), std::string("ci"), std::string("ci."),
        std::string(".secret"), *token + "x",
        token->substr(0, token->size() - 1), "other" + token->substr(2),
        "ci\n." + token->substr(3), std::string(1 << 20, '.')}) {
    const absl::Status refused = t.store->CallerOf(bad).status();
    EXPECT_EQ(ReasonOf(refused), ErrorReason::kUnauthenticated);
    EXPECT_LT(refused.message().size(), 200u);
    EXPECT_FALSE(absl::StrContains(refused.message(), "secret"));
  }
}

TEST(TokenStore, WhatCannotBeAGoodTokenIsNotMade) {
  Tokens t;
  const auto reason = [&](const char* name, const Grant& grant,
                          absl::Duration life) {
    return ReasonOf(t.store->Make(name, grant, life).status());
  };
  const auto bad = ErrorReason::kBadOption;
  EXPECT_EQ(reason("", kGrant, absl::Hours(1)), bad);
  EXPECT_EQ(reason("A b", kGrant, absl::Hours(1)), bad);
  EXPECT_EQ(reason("ci", kGrant, absl::ZeroDuration()), bad);
  EXPECT_EQ(reason("ci", kGrant, absl::Hours(24 * 367)), bad);
  EXPECT_EQ(reason("ci", {Role::kReader, {}}, absl::Hours(1)), bad);
  EXPECT_EQ(reason("ci", {Role::kReader, {"A B"}}, absl::Hours(1)), bad);
  EXPECT_EQ(reason("ci", {Role::kReader, {""}}, absl::Hours(1)), bad);
  EXPECT_TRUE(t.store->List().empty());
  EXPECT_TRUE(t.store->Make("ci", kGrant, absl::Hours(1)).ok());
  EXPECT_EQ(reason("ci", kGrant, absl::Hours(1)), bad);
}

TEST(TokenStore, AFileThatIsNoneStopsTheDaemon) {
  Tokens t;
  ASSERT_TRUE(ReplacePrivateFile(*OpenFolder::Open(t.folder.path()), "tokens",
                                 "no tokens")
                  .ok());
  EXPECT_EQ(
      ReasonOf(TokenStore::Open(*OpenFolder::Open(t.folder.path()), t.clock)
                   .status()),
      ErrorReason::kStorage);
}

TEST(TokenStore, ATokenThatCannotBeKeptIsNotMade) {
  Tokens t;
  // A folder in the place of the new file.
  ASSERT_EQ(mkdir(absl::StrCat(t.path, ".new").c_str(), 0700), 0);
  EXPECT_EQ(ReasonOf(t.store->Make("ci", kGrant, absl::Hours(1)).status()),
            ErrorReason::kStorage);
  EXPECT_TRUE(t.store->List().empty());
}

TEST(TokenStore,
     ARevocationThatCouldNotBeWrittenHoldsAndIsWrittenByTheNextTry) {
  Tokens t;
  const auto leaked = t.store->Make("leaked", kGrant, absl::Hours(1));
  const auto other = t.store->Make("other", kGrant, absl::Hours(1));
  const auto bad = t.store->Make("bad", kGrant, absl::Hours(1));
  ASSERT_TRUE(bad.ok()) << bad.status();
  // A folder in the place of the new file.
  const std::string in_the_way = absl::StrCat(t.path, ".new");
  ASSERT_EQ(mkdir(in_the_way.c_str(), 0700), 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ReasonOf(t.store->Revoke("leaked")), ErrorReason::kStorage);
    EXPECT_FALSE(t.store->CallerOf(*leaked).ok());
  }
  EXPECT_EQ(ReasonOf(t.store->Revoke("bad")), ErrorReason::kStorage);
  EXPECT_TRUE(absl::StrContains(Contents(t.path), "leaked"));
  ASSERT_EQ(rmdir(in_the_way.c_str()), 0);
  EXPECT_TRUE(t.store->Revoke("leaked").ok());
  EXPECT_TRUE(absl::IsNotFound(t.store->Revoke("leaked")));
  // That write had the other revocation too.
  EXPECT_TRUE(absl::IsNotFound(t.store->Revoke("bad")));
  t.Open();
  EXPECT_FALSE(t.store->CallerOf(*leaked).ok());
  EXPECT_FALSE(t.store->CallerOf(*bad).ok());
  EXPECT_TRUE(t.store->CallerOf(*other).ok());
}

TEST(TokenStore, ANewTokenOfARevokedNameThatCouldNotBeWrittenIsGood) {
  Tokens t;
  const auto old = t.store->Make("ci", kGrant, absl::Hours(1));
  const std::string in_the_way = absl::StrCat(t.path, ".new");
  ASSERT_EQ(mkdir(in_the_way.c_str(), 0700), 0);
  EXPECT_FALSE(t.store->Revoke("ci").ok());
  EXPECT_FALSE(t.store->Make("ci", kGrant, absl::Hours(1)).ok());
  ASSERT_EQ(rmdir(in_the_way.c_str()), 0);
  const auto next = t.store->Make("ci", kGrant, absl::Hours(1));
  ASSERT_TRUE(next.ok()) << next.status();
  for (const bool again : {false, true}) {
    if (again) t.Open();
    EXPECT_TRUE(t.store->CallerOf(*next).ok());
    EXPECT_FALSE(t.store->CallerOf(*old).ok());
  }
}

TEST(PrivateFile, ALinkIsNotFollowed) {
  const ShortFolder short_folder;
  const std::string& path = short_folder.path();
  const OpenFolder folder = *OpenFolder::Open(path);
  ASSERT_TRUE(ReplacePrivateFile(folder, "target", "kept").ok());
  ASSERT_EQ(symlink("target", (path + "/link").c_str()), 0);
  EXPECT_EQ(ReasonOf(ReadPrivateFile(folder, "link", 100).status()),
            ErrorReason::kStorage);
  EXPECT_EQ(ReasonOf(ReadPrivateFile(path + "/link", 100).status()),
            ErrorReason::kStorage);
  // Replaced, not written through.
  EXPECT_TRUE(ReplacePrivateFile(folder, "link", "new").ok());
  EXPECT_EQ(*ReadPrivateFile(folder, "target", 100), "kept");
  EXPECT_EQ(*ReadPrivateFile(folder, "link", 100), "new");
  EXPECT_EQ(*ReadPrivateFile(path + "/link", 100), "new");
  EXPECT_EQ(ReasonOf(ReadPrivateFile(folder, "link", 2).status()),
            ErrorReason::kStorage);
}

TEST(OpenFolder, NamesWhatIsInItEachTime) {
  const ShortFolder short_folder;
  const OpenFolder folder = *OpenFolder::Open(short_folder.path());
  EXPECT_TRUE(folder.Names()->empty());
  for (const char* name : {"a", "b"})
    ASSERT_TRUE(ReplacePrivateFile(folder, name, "bytes").ok());
  ASSERT_EQ(symlink("nowhere", folder.PathOf("link").c_str()), 0);
  for (int i = 0; i < 2; ++i) {
    const std::vector<std::string> names = *folder.Names();
    EXPECT_EQ((std::set<std::string>(names.begin(), names.end())),
              (std::set<std::string>{"a", "b", "link"}));
  }
  EXPECT_TRUE(folder.Has("link"));
  EXPECT_FALSE(folder.Has("nowhere"));
  EXPECT_EQ(ReasonOf(OpenFolder::Open(folder.PathOf("a")).status()),
            ErrorReason::kStorage);
}

TEST(AuditLog, ALineTellsWhoDidWhatAndHowItEnded) {
  const ShortFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/audit.log");
  FakeClock clock;
  auto log = AuditLog::Open(*OpenFolder::Open(folder.path()), clock);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Record("token:ci", "purge", "a \"b\"\n", absl::OkStatus());
  EXPECT_EQ(Contents(path),
            "{\"time\":\"2026-01-01T00:00:00.000Z\",\"who\":\"token:ci\","
            "\"what\":\"purge\",\"subject\":\"a \\\"b\\\"\\n\","
            "\"outcome\":\"OK\"}\n");
  EXPECT_EQ(ModeOf(path), 0600u);
  // Appended, never begun anew.
  log = AuditLog::Open(*OpenFolder::Open(folder.path()), clock);
  (*log)->Record("uid:1", "drain", "",
                 MakeError(ErrorReason::kPermission, "no"));
  EXPECT_TRUE(absl::StrContains(Contents(path), "token:ci"));
  EXPECT_TRUE(absl::StrContains(Contents(path), "\"outcome\":\"PERMISSION\""));
}

TEST(TokenName, IsWhatOfATokenMayBeShown) {
  const std::string secret(kTokenSecretText, 'a');  // all letters of a name
  EXPECT_EQ(TokenNameIn("ci.west-1"), "ci.west-1");
  EXPECT_EQ(TokenNameIn("ci.west-1." + secret), "ci.west-1");
  EXPECT_EQ(TokenNameIn("ci.NjoRdk-x"), "ci.");
  EXPECT_EQ(TokenNameIn(secret + "=" + secret), secret);
  EXPECT_EQ(TokenNameIn(""), "");
}

TEST(TokenStore, NoMessageHasTheSecretOfATokenThatIsNotThere) {
  FakeClock clock;
  const ShortFolder folder;
  const auto store = TokenStore::Open(*OpenFolder::Open(folder.path()), clock);
  ASSERT_TRUE(store.ok()) << store.status();
  const std::string token =
      *(*store)->Make("ci", {Role::kReader, {"*"}}, absl::Hours(1));
  ASSERT_TRUE((*store)->Revoke(token).ok());
  EXPECT_FALSE((*store)->CallerOf(token).ok());
  const absl::Status gone = (*store)->Revoke(absl::StrCat("x", token));
  EXPECT_TRUE(absl::IsNotFound(gone)) << gone;
  EXPECT_FALSE(absl::StrContains(gone.message(), token.substr(3))) << gone;
  // Nor is one made whose name is a token.
  const absl::Status made =
      (*store)->Make(token, {Role::kReader, {"*"}}, absl::Hours(1)).status();
  EXPECT_EQ(ReasonOf(made), ErrorReason::kBadOption);
  EXPECT_FALSE(absl::StrContains(made.message(), token.substr(3))) << made;
}

TEST(AuditLog, ALineThatIsCutShortSpoilsNoOther) {
  const ShortFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/audit.log");
  FakeClock clock;
  auto log = AuditLog::Open(*OpenFolder::Open(folder.path()), clock);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Record("uid:1", "purge", "first", absl::OkStatus());
  // As on a full disk: there is room for a part of the line.
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = signal(SIGXFSZ, SIG_IGN);
  rlimit full = before;
  full.rlim_cur = Contents(path).size() + 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  (*log)->Record("uid:1", "purge", "cut", absl::OkStatus());
  (*log)->Record("uid:1", "purge", "lost", absl::OkStatus());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, ignored);
  (*log)->Record("uid:1", "purge", "third", absl::OkStatus());
  (*log)->Record("uid:1", "purge", "fourth", absl::OkStatus());
  const std::vector<std::string> lines =
      absl::StrSplit(Contents(path), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 4u) << Contents(path);
  EXPECT_EQ(lines[1].size(), 20u);
  for (const int whole : {0, 2, 3})
    EXPECT_TRUE(absl::StartsWith(lines[whole], "{\"time\"") &&
                absl::EndsWith(lines[whole], "\"OK\"}"))
        << lines[whole];
}

TEST(AuditLog, WhatIsRenamedIsFollowedByANewFileOfThePath) {
  const ShortFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/audit.log");
  const std::string old = absl::StrCat(path, ".1");
  FakeClock clock;
  auto log = AuditLog::Open(*OpenFolder::Open(folder.path()), clock);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Record("uid:1", "purge", "first", absl::OkStatus());
  ASSERT_EQ(rename(path.c_str(), old.c_str()), 0);
  (*log)->Record("uid:1", "purge", "second", absl::OkStatus());
  EXPECT_TRUE(absl::StrContains(Contents(old), "first"));
  EXPECT_FALSE(absl::StrContains(Contents(old), "second"));
  EXPECT_TRUE(absl::StrContains(Contents(path), "second"));
  EXPECT_EQ(ModeOf(path), 0600u);
  // Nobody has it written elsewhere by a link.
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(symlink("elsewhere", path.c_str()), 0);
  (*log)->Record("uid:1", "purge", "third", absl::OkStatus());
  struct stat info = {};
  EXPECT_NE(stat(absl::StrCat(folder.path(), "/elsewhere").c_str(), &info), 0);
}

TEST(AuditLog, AFloodOfRefusalsIsCounted) {
  const ShortFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/audit.log");
  FakeClock clock;
  auto log = AuditLog::Open(*OpenFolder::Open(folder.path()), clock);
  const auto refuse = [&] {
    (*log)->Record("plain", "purge", "a",
                   MakeError(ErrorReason::kPermission, "no"));
  };
  for (int i = 0; i < 1000; ++i) refuse();
  EXPECT_EQ(Contents(path).size(), Contents(path).find('\n') + 1);
  clock.Advance(absl::Minutes(1));
  refuse();
  EXPECT_TRUE(absl::StrContains(Contents(path), "\"repeated\":999}"));
  // The minute's count, and then the refusal itself.
  const std::string counted = Contents(path);
  EXPECT_EQ(std::count(counted.begin(), counted.end(), '\n'), 3);
  // What was done is never left out.
  for (int i = 0; i < 3; ++i)
    (*log)->Record("uid:0", "purge", "all", absl::OkStatus());
  const std::string text = Contents(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
}

TEST(AuditLog, AFloodOfDifferentRefusalsIsCountedToo) {
  const ShortFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/audit.log");
  FakeClock clock;
  auto log = AuditLog::Open(*OpenFolder::Open(folder.path()), clock);
  const absl::Status no = MakeError(ErrorReason::kPermission, "no");
  const auto lines = [&path] {
    const std::string text = Contents(path);
    return std::count(text.begin(), text.end(), '\n');
  };
  const std::string subject(100 << 10, 's');
  for (int i = 0; i < 1000; ++i)
    (*log)->Record("token:rd", "list", absl::StrCat(i, subject), no);
  EXPECT_EQ(lines(), AuditLog::kMostRefusals);
  EXPECT_LT(Contents(path).size(), 40u << 10);
  // Many callers share a budget.
  for (int i = 0; i < 10'000; ++i)
    (*log)->Record(absl::StrCat("ipv6:", i), "call", "", no);
  EXPECT_LE(lines(), AuditLog::kMostRefusalsOfAll + 1);
  clock.Advance(absl::Minutes(1));
  (*log)->Tick();
  EXPECT_TRUE(absl::StrContains(Contents(path),
                                "\"who\":\"token:rd\",\"what\":\"more\""));
  EXPECT_TRUE(absl::StrContains(Contents(path), "\"repeated\":940}"));
}

TEST(AuditLog, WhatIsDoneOftenIsWrittenAndCountedBeyondANumber) {
  const ShortFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/audit.log");
  FakeClock clock;
  auto log = AuditLog::Open(*OpenFolder::Open(folder.path()), clock);
  for (int i = 0; i < 1000; ++i)
    (*log)->RecordOften("token:pub", "put_record", absl::StrCat("unit ", i));
  std::string text = Contents(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
            AuditLog::kMostRefusals);
  EXPECT_TRUE(absl::StrContains(text, "\"subject\":\"unit 0\""));
  // It takes no room from refusals.
  (*log)->Record("token:pub", "purge", "",
                 MakeError(ErrorReason::kPermission, "no"));
  EXPECT_TRUE(absl::StrContains(Contents(path), "\"outcome\":\"PERMISSION\""));
  clock.Advance(absl::Minutes(1));
  (*log)->Tick();
  EXPECT_TRUE(absl::StrContains(
      Contents(path),
      "\"who\":\"token:pub\",\"what\":\"more\",\"subject\":\"\","
      "\"outcome\":\"OK\",\"repeated\":940}"));
}

TEST(AuditLog, AMinuteIsOneHoweverTheWallsClockIsSet) {
  const ShortFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/audit.log");
  FakeClock clock;
  auto log = AuditLog::Open(*OpenFolder::Open(folder.path()), clock);
  const auto lines_after_a_refusal = [&] {
    (*log)->Tick();
    (*log)->Record("uid:1", "drain", "",
                   MakeError(ErrorReason::kPermission, "no"));
    const std::string text = Contents(path);
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines_after_a_refusal(), 1);
  for (const int hours : {24, -48, 1, -1}) {
    clock.Jump(absl::Hours(hours));
    EXPECT_EQ(lines_after_a_refusal(), 1) << hours;
  }
  // Set back by two days, and a minute later.
  clock.Jump(absl::Hours(-48));
  clock.Advance(absl::Minutes(1));
  EXPECT_EQ(lines_after_a_refusal(), 3);
  EXPECT_TRUE(absl::StrContains(Contents(path), "\"repeated\":4}"));
}

TEST(AuditLog, WhatWasCountedIsWrittenWhenItEnds) {
  const ShortFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/audit.log");
  FakeClock clock;
  auto log = AuditLog::Open(*OpenFolder::Open(folder.path()), clock);
  for (int i = 0; i < 18; ++i)
    (*log)->Record("uid:1", "drain", "",
                   MakeError(ErrorReason::kPermission, "no"));
  log->reset();
  EXPECT_TRUE(absl::StrContains(Contents(path), "\"repeated\":17}"));
}

}  // namespace
}  // namespace kiln
