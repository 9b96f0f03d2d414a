#include "server/access/client_certificates.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_ca.h"

namespace kiln {
namespace {

std::string BytesOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The wall's time, and a steady clock that the test turns: what is cached and when
// files are looked at.
class TurnedClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now() + ahead_; }
  SteadyTime Steady() const override { return After(begun_, ahead_); }
  void Advance(absl::Duration by) { ahead_ += by; }

 private:
  const SteadyTime begun_ = SteadyNow();
  absl::Duration ahead_;
};

class ClientCertificatesTest : public testing::Test {
 protected:
  ClientCertificatesTest() : ca_(folder_.path(), "ca") { Open(); }

  void Open() {
    auto opened = ClientCertificates::Open(ca_.file(), clock_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    certificates_ = *std::move(opened);
  }
  // What is said of a certificate: "OK", or why not.
  std::string Said(const TestCa::Files& files, const std::string& chain = "") {
    const absl::Status status =
        certificates_->Check(BytesOf(files.certificate), chain);
    if (status.ok()) return "OK";
    EXPECT_EQ(ReasonOf(status), ErrorReason::kUnauthenticated);
    return std::string(status.message());
  }

  const ShortFolder folder_;
  TurnedClock clock_;
  TestCa ca_;
  std::unique_ptr<ClientCertificates> certificates_;
};

TEST_F(ClientCertificatesTest, OneOfTheCaIsGood) {
  EXPECT_EQ(Said(ca_.Issue("trainer.example", "trainer")), "OK");
}

TEST_F(ClientCertificatesTest, AnExpiredOneIsNamed) {
  EXPECT_EQ(Said(ca_.Issue("old.example", "old", -absl::Hours(1))),
            "certificate CN = old.example, number 02: certificate has expired");
}

TEST_F(ClientCertificatesTest, OneExpiresWhileItIsInUse) {
  const TestCa::Files files =
      ca_.Issue("short.example", "short", absl::Minutes(10));
  EXPECT_EQ(Said(files), "OK");
  clock_.Advance(absl::Minutes(11));
  EXPECT_TRUE(absl::StrContains(Said(files), "has expired"));
}

TEST_F(ClientCertificatesTest, AForeignOneIsRefused) {
  TestCa foreign(folder_.path(), "foreign");
  const TestCa::Files forged = foreign.Issue("trainer.example", "forged");
  EXPECT_TRUE(
      absl::StrContains(Said(forged), "unable to get local issuer certificate"))
      << Said(forged);
  // A CA that a stranger brings along is no CA.
  EXPECT_NE(Said(forged, BytesOf(foreign.file())), "OK");
  // Nor one that calls itself as ours does.
  std::filesystem::create_directory(folder_.path() + "/impostor");
  TestCa impostor(folder_.path() + "/impostor", "ca");
  EXPECT_NE(Said(impostor.Issue("trainer.example", "forged")), "OK");
}

TEST_F(ClientCertificatesTest, AnIntermediateCaIsFollowed) {
  TestCa between = ca_.Intermediate("between");
  const TestCa::Files files = between.Issue("trainer.example", "trainer");
  EXPECT_NE(Said(files), "OK");
  EXPECT_EQ(Said(files, BytesOf(between.file())), "OK");
}

TEST_F(ClientCertificatesTest, ACallersOwnCertificateIsNoCa) {
  const TestCa::Files caller = ca_.Issue("trainer.example", "trainer");
  TestCa forger(folder_.path(), "forger", caller);
  EXPECT_NE(Said(forger.Issue("operator.example", "forged"),
                 BytesOf(caller.certificate)),
            "OK");
}

TEST_F(ClientCertificatesTest, ADaemonsCertificateIsNoCallers) {
  EXPECT_TRUE(absl::StrContains(
      Said(ca_.Issue("kilnd.example", "kilnd", absl::Hours(1), "serverAuth")),
      "unsuitable certificate purpose"));
}

TEST_F(ClientCertificatesTest, AWeakKeyIsRefused) {
  EXPECT_TRUE(absl::StrContains(Said(ca_.IssueWeak("trainer.example", "weak")),
                                "key too weak"));
}

TEST_F(ClientCertificatesTest, ARevokedOneIsRefusedOnceTheFileSaysSo) {
  const TestCa::Files lost = ca_.Issue("lost.example", "lost");
  const TestCa::Files kept = ca_.Issue("kept.example", "kept");
  EXPECT_EQ(Said(lost), "OK");
  ca_.Revoke(lost);
  clock_.Advance(absl::Seconds(6));
  EXPECT_TRUE(absl::StrContains(Said(lost), "certificate revoked"))
      << Said(lost);
  EXPECT_EQ(Said(kept), "OK");
  // A list that ran out says nothing of what came after it.
  clock_.Advance(absl::Hours(2));
  Open();
  EXPECT_NE(Said(ca_.Issue("new.example", "new", absl::Hours(100))), "OK");
}

TEST_F(ClientCertificatesTest, WhatAConnectionShowsIsKnownForAWhile) {
  const std::string lost =
      BytesOf(ca_.Issue("lost.example", "lost").certificate);
  TestCa foreign(folder_.path(), "foreign");
  const std::string forged =
      BytesOf(foreign.Issue("lost.example", "forged").certificate);
  EXPECT_EQ(certificates_->Known(1), std::nullopt);
  EXPECT_TRUE(certificates_->Check(lost, "", 1).ok());
  EXPECT_EQ(certificates_->Known(1), absl::OkStatus());
  const absl::Status refused = certificates_->Check(forged, "", 2);
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(certificates_->Known(2), refused);
  // Nor is anything known of a connection without a number.
  EXPECT_TRUE(certificates_->Check(lost, "").ok());
  EXPECT_EQ(certificates_->Known(0), std::nullopt);
  // A later connection does not make what is known of the certificate last longer.
  clock_.Advance(absl::Seconds(4));
  EXPECT_TRUE(certificates_->Check(lost, "", 3).ok());
  EXPECT_EQ(certificates_->Known(3), absl::OkStatus());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(certificates_->Known(3), std::nullopt);
  EXPECT_EQ(certificates_->Known(1), std::nullopt);
}

TEST_F(ClientCertificatesTest, ARevokedOneIsNotKnownAnyMore) {
  const TestCa::Files lost = ca_.Issue("lost.example", "lost");
  clock_.Advance(absl::Seconds(4));
  EXPECT_TRUE(certificates_->Check(BytesOf(lost.certificate), "", 1).ok());
  ca_.Revoke(lost);
  clock_.Advance(
      absl::Seconds(2));  // what is known would hold; the file does not
  EXPECT_EQ(certificates_->Known(1), std::nullopt);
  EXPECT_FALSE(certificates_->Check(BytesOf(lost.certificate), "", 1).ok());
}

TEST_F(ClientCertificatesTest, AFileThatTurnedBadIsNotTaken) {
  const TestCa::Files files = ca_.Issue("trainer.example", "trainer");
  std::ofstream(ca_.file()) << "half of a fi";
  clock_.Advance(absl::Seconds(6));
  EXPECT_EQ(Said(files), "OK");
  EXPECT_EQ(ReasonOf(ClientCertificates::Open(ca_.file(), clock_).status()),
            ErrorReason::kBadOption);
}

TEST_F(ClientCertificatesTest, ANewCaCountsOnceTheFileHasIt) {
  TestCa next(folder_.path(), "next");
  const TestCa::Files files = next.Issue("trainer.example", "trainer");
  EXPECT_NE(Said(files), "OK");
  std::ofstream(ca_.file(), std::ios::app) << BytesOf(next.file());
  clock_.Advance(absl::Seconds(6));
  EXPECT_EQ(Said(files), "OK");
  EXPECT_EQ(Said(ca_.Issue("trainer.example", "other")), "OK");
}

TEST_F(ClientCertificatesTest, WhatIsNoCertificateIsRefused) {
  for (const std::string& bytes :
       {std::string(), std::string("-----BEGIN CERTIFICATE-----\nAAAA\n"),
        std::string(200000, 'x')}) {
    EXPECT_FALSE(certificates_->Check(bytes, bytes).ok());
  }
}

}  // namespace
}  // namespace kiln
