// The daemon's certificate and key are replaced while it serves.
#include "server/tls_files.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "proto/base/log.h"
#include "proto/base/mutex.h"
#include "tests/support/raw_tls.h"
#include "tests/support/tls_door.h"

namespace kiln {
namespace {

class TlsFilesTest : public testing::Test {
 protected:
  TlsFilesTest() {
    EXPECT_TRUE(ConfigureLog({.sink = [this](absl::string_view line) {
                  MutexLock lock(&mu_);
                  lines_.emplace_back(line);
                }}).ok());
  }
  ~TlsFilesTest() override { EXPECT_TRUE(ConfigureLog({}).ok()); }

  // The name of whom connections meet, several one after another.
  std::string NameOfDaemon() {
    std::string name = RawTls(d_.door->tcp_port()).PeerName();
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(RawTls(d_.door->tcp_port()).PeerName(), name);
    return name;
  }
  // In one step.
  static void Replace(const std::string& file, const std::string& with) {
    std::filesystem::rename(with, file);
  }
  std::vector<std::string> Lines(absl::string_view event) {
    MutexLock lock(&mu_);
    std::vector<std::string> found;
    for (const std::string& line : lines_)
      if (absl::StrContains(line, event)) found.push_back(line);
    return found;
  }

  Mutex mu_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mu_);
  TlsDoor d_;
};

TEST_F(TlsFilesTest, UntilTheKeyIsReplacedTooThePairBeforeServes) {
  EXPECT_EQ(NameOfDaemon(), "kilnd.example");
  const TestCa::Files next = d_.ca.Issue("next.example", "next");
  Replace(d_.own.certificate, next.certificate);
  EXPECT_EQ(NameOfDaemon(), "kilnd.example");
  const std::vector<std::string> told = Lines("tls.not_taken");
  ASSERT_EQ(told.size(), 1u) << absl::StrJoin(told, "\n");
  EXPECT_TRUE(absl::StrContains(
      told[0],
      absl::StrCat(d_.own.key, ": not the key of ", d_.own.certificate)))
      << told[0];
  Replace(d_.own.key, next.key);
  EXPECT_EQ(NameOfDaemon(), "next.example");
  EXPECT_EQ(Lines("tls.replaced").size(), 1u);
  EXPECT_EQ(Lines("tls.not_taken").size(), 1u);
}

TEST_F(TlsFilesTest, TheKeyFirstIsTheSame) {
  EXPECT_EQ(NameOfDaemon(), "kilnd.example");
  const TestCa::Files next = d_.ca.Issue("next.example", "next");
  Replace(d_.own.key, next.key);
  EXPECT_EQ(NameOfDaemon(), "kilnd.example");
  Replace(d_.own.certificate, next.certificate);
  EXPECT_EQ(NameOfDaemon(), "next.example");
}

TEST_F(TlsFilesTest, FilesThatTurnBadAreNotTaken) {
  EXPECT_EQ(NameOfDaemon(), "kilnd.example");
  std::filesystem::remove(d_.own.key);
  EXPECT_EQ(NameOfDaemon(), "kilnd.example");
  std::ofstream(d_.own.certificate) << "half a cert";
  EXPECT_EQ(NameOfDaemon(), "kilnd.example");
  EXPECT_EQ(Lines("tls.not_taken").size(), 2u);
}

TEST_F(TlsFilesTest, ThatItsCertificateHasExpiredIsToldOnce) {
  EXPECT_EQ(NameOfDaemon(), "kilnd.example");
  EXPECT_TRUE(Lines("tls.expired").empty());
  const TestCa::Files old =
      d_.ca.Issue("old.example", "old", -absl::Minutes(1));
  Replace(d_.own.certificate, old.certificate);
  Replace(d_.own.key, old.key);
  EXPECT_EQ(NameOfDaemon(), "old.example");
  const std::vector<std::string> told = Lines("tls.expired");
  ASSERT_EQ(told.size(), 1u) << absl::StrJoin(told, "\n");
  EXPECT_TRUE(absl::StrContains(told[0], d_.own.certificate)) << told[0];
  const TestCa::Files next = d_.ca.Issue("next.example", "next");
  Replace(d_.own.certificate, next.certificate);
  Replace(d_.own.key, next.key);
  EXPECT_EQ(NameOfDaemon(), "next.example");
  EXPECT_EQ(Lines("tls.expired").size(), 1u);
}

}  // namespace
}  // namespace kiln
