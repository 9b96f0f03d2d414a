// Artifacts that are sound and well signed, and still not what was asked for: a
// session loads none of them.

#include <memory>
#include <string>

#include "client/session.h"
#include "gtest/gtest.h"
#include "proto/artifact.pb.h"
#include "proto/base/assemble.h"
#include "proto/base/seal.h"
#include "proto/base/status.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

class RefusedArtifacts : public testing::Test {
 protected:
  RefusedArtifacts() {
    SessionOptions options;
    options.daemon.socket = daemon_.config().socket;
    options.daemon.answer_timeout = absl::Seconds(60);
    options.device.kind = DeviceKind::kNull;
    options.cache_namespace = "team-a";
    options.trusted_keys = {trusted_.public_key()};
    session_ = *Session::Open(options);
    good_ = Compiled("fake.salt.a");
    EXPECT_TRUE(artifact_.ParseFromString(good_.artifact.artifact()));
    EXPECT_TRUE(envelope_.ParseFromString(good_.artifact.envelope()));
  }

  CompileOutcome Compiled(const std::string& order) {
    CompileReport report;
    const auto request = session_->RequestFor(FakeRequest({order}).graph(), {});
    auto outcome = session_->CompileOnly(*request, report);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return *std::move(outcome);
  }

  // What loading it says, when it is signed by `key`.
  std::optional<ErrorReason> WhyNot(const SigningKey& key,
                                    const wire::Artifact& artifact,
                                    const wire::ArtifactEnvelope& envelope) {
    const auto sealed =
        SealArtifact(key, envelope, artifact.SerializeAsString());
    const auto loaded = session_->Load(sealed, good_.request_digest);
    return loaded.ok() ? std::nullopt : ReasonOf(loaded.status());
  }

  const SigningKey trusted_ = *SigningKey::Generate();
  TestDaemon daemon_;
  std::shared_ptr<Session> session_;
  CompileOutcome good_;
  wire::Artifact artifact_;
  wire::ArtifactEnvelope envelope_;
};

TEST_F(RefusedArtifacts, AsItIsSignedAgainItLoads) {
  EXPECT_TRUE(session_->Load(good_.artifact, good_.request_digest).ok());
  EXPECT_EQ(WhyNot(trusted_, artifact_, envelope_), std::nullopt);
}

TEST_F(RefusedArtifacts, AReplayedOneAnswersAnotherRequest) {
  const CompileOutcome other = Compiled("fake.salt.b");
  EXPECT_EQ(
      ReasonOf(session_->Load(other.artifact, good_.request_digest).status()),
      ErrorReason::kArtifactIncompatible);
}

TEST_F(RefusedArtifacts, AnEnvelopeOfOneVouchesForNoOther) {
  wire::SignedArtifact mixed = Compiled("fake.salt.b").artifact;
  mixed.set_envelope(good_.artifact.envelope());
  mixed.set_signature(good_.artifact.signature());
  EXPECT_EQ(ReasonOf(session_->Load(mixed, good_.request_digest).status()),
            ErrorReason::kArtifactUntrusted);
}

TEST_F(RefusedArtifacts, ADowngradedOneIsOfAnotherFormat) {
  artifact_.set_format_version(kArtifactFormatVersion - 1);
  EXPECT_EQ(WhyNot(trusted_, artifact_, envelope_),
            ErrorReason::kArtifactIncompatible);
}

TEST_F(RefusedArtifacts, AForeignOneIsSignedByNobodyWhoCounts) {
  EXPECT_EQ(WhyNot(*SigningKey::Generate(), artifact_, envelope_),
            ErrorReason::kArtifactUntrusted);
}

TEST_F(RefusedArtifacts, OneOfAnotherNamespaceIsSignedForThatOne) {
  envelope_.set_cache_namespace("team-b");
  EXPECT_EQ(WhyNot(trusted_, artifact_, envelope_),
            ErrorReason::kArtifactUntrusted);
}

TEST_F(RefusedArtifacts, OneThatIsNotSignedIsNobodys) {
  EXPECT_EQ(ReasonOf(session_
                         ->Load(UnsignedArtifact(good_.artifact.artifact()),
                                good_.request_digest)
                         .status()),
            ErrorReason::kArtifactUntrusted);
}

}  // namespace
}  // namespace kiln
