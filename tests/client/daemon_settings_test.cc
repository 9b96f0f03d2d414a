#include "client/daemon_settings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/session.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/null_session.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_daemon.h"
#include "tests/support/tls_daemons.h"

namespace kiln {
namespace {

constexpr const char* kVariables[] = {
    "KILN_ADDR",    "KILN_PUBLIC_KEY", "KILN_TLS_CA",    "KILN_TLS_CERTIFICATE",
    "KILN_TLS_KEY", "KILN_TOKEN_FILE", "KILN_NAMESPACE", "KILN_URGENCY",
    "KILN_CONFIG",  "XDG_CONFIG_HOME"};

class DaemonSettingsTest : public testing::Test {
 protected:
  DaemonSettingsTest()
      : key_(absl::BytesToHexString(
            SigningKey::Generate()->public_key().bytes())) {
    for (const char* name : kVariables) unsetenv(name);
    // Whatever the user of these tests has.
    setenv("HOME", folder_.path().c_str(), 1);
  }
  ~DaemonSettingsTest() override {
    for (const char* name : kVariables) unsetenv(name);
  }

  // Writes FOLDER/kiln.toml, which is read from now on.
  std::string WriteFile(const std::string& text, mode_t mode = 0600) {
    const std::string file = folder_.path() + "/kiln.toml";
    std::ofstream(file) << text;
    chmod(file.c_str(), mode);
    setenv("KILN_CONFIG", file.c_str(), 1);
    return file;
  }
  static std::string Refusal() {
    const auto settings = ReadDaemonSettings();
    EXPECT_EQ(ReasonOf(settings.status()), ErrorReason::kBadOption);
    return std::string(settings.status().message());
  }

  const ShortFolder folder_;
  const std::string key_;
};

TEST_F(DaemonSettingsTest, NothingIsNothing) {
  const auto settings = ReadDaemonSettings();
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_TRUE(settings->daemons.empty());
  EXPECT_EQ(settings->cache_namespace, "");
}

TEST_F(DaemonSettingsTest, TheEnvironmentNamesDaemonsAndWhatTheyAreShown) {
  setenv("KILN_ADDR", "unix:/run/kilnd.sock, kiln-a.example:7117 ,/tmp/k", 1);
  setenv("KILN_PUBLIC_KEY", key_.c_str(), 1);
  setenv("KILN_TLS_CA", "/ca.pem", 1);
  setenv("KILN_TOKEN_FILE", "~/token", 1);
  setenv("KILN_NAMESPACE", "team-a", 1);
  setenv("KILN_URGENCY", "prewarm", 1);
  const auto settings = ReadDaemonSettings();
  ASSERT_TRUE(settings.ok()) << settings.status();
  ASSERT_EQ(settings->daemons.size(), 3u);
  EXPECT_EQ(settings->daemons[0].Text(), "unix:/run/kilnd.sock");
  EXPECT_EQ(settings->daemons[1].Text(), "kiln-a.example:7117");
  EXPECT_EQ(settings->daemons[1].tls.ca, "/ca.pem");
  EXPECT_EQ(settings->daemons[1].tls.token_file, folder_.path() + "/token");
  EXPECT_EQ(settings->daemons[1].public_keys.size(), 1u);
  EXPECT_EQ(settings->daemons[2].Text(), "unix:/tmp/k");
  EXPECT_EQ(settings->cache_namespace, "team-a");
  EXPECT_EQ(settings->urgency, wire::URGENCY_PREWARM);
}

TEST_F(DaemonSettingsTest, TheFileSaysTheRestAndItsPathsAreSeenFromThere) {
  WriteFile(absl::StrCat(
      "[daemon]\naddresses = [\"kiln-a.example:7117\"]\npublic_keys = [\"",
      key_, "\"]\ntls_ca = \"ca.pem\"\nnamespace = \"of-the-file\"\n"));
  setenv("KILN_NAMESPACE", "of-the-environment", 1);
  const auto settings = ReadDaemonSettings();
  ASSERT_TRUE(settings.ok()) << settings.status();
  ASSERT_EQ(settings->daemons.size(), 1u);
  EXPECT_EQ(settings->daemons[0].tls.ca, folder_.path() + "/ca.pem");
  EXPECT_EQ(settings->cache_namespace, "of-the-environment");
}

TEST_F(DaemonSettingsTest, TheExampleIsRead) {
  setenv("KILN_CONFIG", "deploy/kiln.example.toml", 1);
  const auto settings = ReadDaemonSettings();
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->daemons.size(), 2u);
}

TEST_F(DaemonSettingsTest, TheUsersFileIsFoundWithoutBeingNamed) {
  ASSERT_EQ(mkdir((folder_.path() + "/.config").c_str(), 0700), 0);
  ASSERT_EQ(mkdir((folder_.path() + "/.config/kiln").c_str(), 0700), 0);
  std::ofstream(folder_.path() + "/.config/kiln/kiln.toml")
      << "[daemon]\naddresses = \"unix:/run/kilnd.sock\"\n";
  const auto settings = ReadDaemonSettings();
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->daemons.size(), 1u);
}

TEST_F(DaemonSettingsTest, WhatIsWrongIsNamedWithItsPlace) {
  setenv("KILN_ADDR", "nonsense", 1);
  EXPECT_EQ(Refusal(),
            "KILN_ADDR: found \"nonsense\", expected unix:/PATH or HOST:PORT");
  setenv("KILN_ADDR", "kiln-a.example:7117", 1);
  EXPECT_TRUE(absl::StrContains(
      Refusal(), "found no public key for it; set KILN_PUBLIC_KEY"));
  setenv("KILN_PUBLIC_KEY", "12", 1);
  EXPECT_TRUE(absl::StrContains(Refusal(), "expected 64 hexadecimal digits"));
  unsetenv("KILN_ADDR");
  unsetenv("KILN_PUBLIC_KEY");
  setenv("KILN_URGENCY", "soon", 1);
  EXPECT_TRUE(absl::StrContains(Refusal(), "KILN_URGENCY: found \"soon\""));
  unsetenv("KILN_URGENCY");
  for (const auto& [text, due] :
       {std::pair<const char*, const char*>{
            "[daemon]\naddresses = 7\n",
            "addresses: expected a list of strings"},
        {"[daemon]\nadresses = []\n", "[daemon] adresses: unknown word"},
        {"[deamon]\n", "found \"deamon\", expected only [daemon]"},
        {"[daemon\n", "line 1"},
        {"[daemon]\nnamespace = \"No!\"\n", "kiln.toml: namespace"}}) {
    const std::string file = WriteFile(text);
    const std::string refusal = Refusal();
    EXPECT_TRUE(absl::StrContains(refusal, file)) << refusal;
    EXPECT_TRUE(absl::StrContains(refusal, due)) << refusal;
  }
}

TEST_F(DaemonSettingsTest, AnAddressThatNobodyVouchesForIsToldOfOnce) {
  setenv("KILN_ADDR", "kiln-b.example:7117,unix:/run/kilnd.sock", 1);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    const auto settings = ReadDaemonSettings();
    ASSERT_TRUE(settings.ok()) << settings.status();
    ASSERT_EQ(settings->daemons.size(), 1u);
    EXPECT_EQ(settings->daemons[0].Text(), "unix:/run/kilnd.sock");
  }
  const std::vector<std::string> told = absl::StrSplit(
      testing::internal::GetCapturedStderr(), '\n', absl::SkipEmpty());
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(
      absl::StrContains(told[0], "kiln-b.example:7117: found no public key"))
      << told[0];
}

TEST_F(DaemonSettingsTest, AFileThatOthersMayWriteIsNotTaken) {
  WriteFile("[daemon]\naddresses = \"unix:/run/kilnd.sock\"\n", 0666);
  EXPECT_TRUE(absl::StrContains(Refusal(), "other users can write it"));
  const std::string file =
      WriteFile("[daemon]\naddresses = \"unix:/run/kilnd.sock\"\n");
  EXPECT_TRUE(ReadDaemonSettings().ok());
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(file.c_str(), 65534, 65534), 0);
  EXPECT_TRUE(absl::StrContains(Refusal(), "it is user 65534's"));
}

TEST_F(DaemonSettingsTest, ASessionWithoutAnAddressAsksTheDaemonThatIsSet) {
  TestDaemon d;
  setenv("KILN_ADDR", absl::StrCat("unix:", d.config().socket).c_str(), 1);
  setenv("KILN_NAMESPACE", "team-a", 1);
  const auto session = Session::Open(NullSessionOptions(""));
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_FALSE(ReportOf(*session, "fake.salt.a").by_local_worker);
  wire::ListReply list;
  grpc::ClientContext context;
  ASSERT_TRUE(AdminStub(d.client())->List(&context, {}, &list).ok());
  ASSERT_EQ(list.entries_size(), 1);
  EXPECT_EQ(list.entries(0).cache_namespace(), "team-a");
  // Settings that are wrong are not passed over in silence.
  setenv("KILN_ADDR", "nonsense", 1);
  EXPECT_EQ(ReasonOf(Session::Open(NullSessionOptions("")).status()),
            ErrorReason::kBadOption);
}

}  // namespace
}  // namespace kiln
