// The program at a daemon behind TLS: whether it is the one that was meant, and
// what it says where words are missing or do not fit.

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/base/digest.h"
#include "proto/base/signature.h"
#include "tests/client/compilectl/run_compilectl.h"
#include "tests/support/tls_daemons.h"

namespace kiln {
namespace {

using Words = std::vector<std::string>;
using Json = nlohmann::json;

std::string IdOf(const std::string& public_key_hex) {
  const auto key =
      PublicKey::FromBytes(Digest::FromHex(public_key_hex)->bytes());
  return absl::BytesToHexString(key->key_id());
}

class Network : public testing::Test {
 protected:
  Network()
      : own_(ca_.Issue("kilnd.example", "kilnd")),
        daemon_([this](Config& config) { OpenTlsDoor(config, own_, ca_); }),
        key_(KeyHexOf(daemon_)) {
    const ProgramRun token = AtSocket(
        {"tokens", "add", "ops", "--role", "admin", "--namespace", "*"});
    EXPECT_EQ(token.exit_code, 0) << token.err;
    std::ofstream(token_file()) << token.out;
    chmod(token_file().c_str(), 0600);
  }

  std::string token_file() const { return folder_.path() + "/ops.token"; }

  ProgramRun AtSocket(Words words) {
    words.insert(words.end(), {"--socket", daemon_.config().socket});
    return RunCompilectl(std::move(words));
  }
  // Without a key.
  ProgramRun AtDoor(Words words) {
    words.insert(
        words.end(),
        {"--tcp", absl::StrCat("localhost:", daemon_.daemon().tcp_port()),
         "--tls-ca", ca_.file(), "--token-file", token_file()});
    return RunCompilectl(std::move(words));
  }

  const ShortFolder folder_;
  TestCa ca_{folder_.path(), "ca"};
  const TestCa::Files own_;
  TestDaemon daemon_;
  const std::string key_;
};

TEST_F(Network, TheDaemonThatIsMeantAnswers) {
  EXPECT_EQ(AtDoor({"stats", "--public-key", key_}).exit_code, 0);
  const ProgramRun doctor = AtDoor({"doctor", "--public-key", key_});
  EXPECT_EQ(doctor.exit_code, 0) << doctor.out;
  setenv("KILN_PUBLIC_KEY", key_.c_str(), 1);
  EXPECT_EQ(AtDoor({"stats"}).exit_code, 0);
  unsetenv("KILN_PUBLIC_KEY");
}

TEST_F(Network, AnotherDaemonIsRefusedWithTheKeysOfBoth) {
  const std::string other =
      absl::BytesToHexString(SigningKey::Generate()->public_key().bytes());
  for (const char* command : {"stats", "ls", "drain"}) {
    const ProgramRun run = AtDoor({command, "--public-key", other});
    EXPECT_EQ(run.exit_code, 1) << command;
    EXPECT_EQ(run.out, "") << command;
    EXPECT_TRUE(
        absl::StartsWith(run.err, "compilectl: ARTIFACT_UNTRUSTED: kilnd at "))
        << run.err;
    EXPECT_TRUE(absl::StrContains(run.err, IdOf(key_))) << run.err;
    EXPECT_TRUE(absl::StrContains(run.err, IdOf(other))) << run.err;
  }
  EXPECT_EQ(AtSocket({"stats"}).exit_code, 0);  // it was not drained
  const ProgramRun doctor =
      AtDoor({"doctor", "-o", "json", "--public-key", other});
  EXPECT_EQ(doctor.exit_code, 1);
  const Json said = Json::parse(doctor.out, nullptr, /*throw=*/false);
  bool told = false;
  for (const Json& finding : said["findings"]) {
    if (finding["subject"] != "daemon") continue;
    told = true;
    EXPECT_EQ(finding["health"], "BAD");
    EXPECT_TRUE(absl::StrContains(std::string(finding["found"]), IdOf(other)));
    EXPECT_TRUE(absl::StartsWith(std::string(finding["remedy"]),
                                 "compilectl keys list"));
  }
  EXPECT_TRUE(told) << doctor.out;
}

TEST_F(Network, AKeyThatWasRotatedIsGoodUntilItIsRevoked) {
  const std::string next = AtSocket({"keys", "rotate"}).out.substr(0, 64);
  EXPECT_EQ(AtDoor({"stats", "--public-key", key_}).exit_code, 0);
  EXPECT_EQ(AtDoor({"stats", "--public-key", next}).exit_code, 0);
  EXPECT_EQ(AtDoor({"keys", "revoke", key_, "--public-key", next}).exit_code,
            0);
  EXPECT_EQ(AtDoor({"stats", "--public-key", key_}).exit_code, 1);
  EXPECT_EQ(AtDoor({"stats", "--public-key", key_ + "," + next}).exit_code, 0);
}

TEST_F(Network, WhatIsMissingIsToldWithWhereToGetIt) {
  const ProgramRun no_key = AtDoor({"stats"});
  EXPECT_EQ(no_key.exit_code, 2);
  EXPECT_TRUE(absl::StrContains(no_key.err, "--public-key: found none"))
      << no_key.err;
  EXPECT_TRUE(absl::StrContains(no_key.err, "compilectl keys list"))
      << no_key.err;
  const ProgramRun both =
      AtDoor({"stats", "--public-key", key_, "--socket", "/nowhere"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_TRUE(absl::StrContains(both.err, "--socket, --tcp: both are given"))
      << both.err;
  const ProgramRun no_ca =
      RunCompilectl({"stats", "--tcp", "localhost:1", "--public-key", key_,
                     "--tls-ca", "no/ca.crt"});
  EXPECT_EQ(no_ca.exit_code, 2);
  EXPECT_TRUE(absl::StrContains(
      no_ca.err, absl::StrCat("TLS CA: no/ca.crt: can't be read: No such file "
                              "or directory (seen from ",
                              std::filesystem::current_path().string(), ")")))
      << no_ca.err;
}

TEST_F(Network, ACertificateAndAnothersKeyAreRefusedAtOnce) {
  const TestCa::Files mine = ca_.Issue("mine.example", "mine");
  const ProgramRun run =
      RunCompilectl({"stats", "--tcp", "localhost:1", "--public-key", key_,
                     "--tls-ca", ca_.file(), "--tls-certificate",
                     mine.certificate, "--tls-key", own_.key});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(absl::StrContains(
      run.err,
      absl::StrCat(own_.key, ": is not the key of ", mine.certificate)))
      << run.err;
}

}  // namespace
}  // namespace kiln
