#include "client/load_bundle.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/artifact_bundle.h"
#include "gtest/gtest.h"
#include "proto/artifact_bundle.pb.h"
#include "proto/base/digest.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/test_daemon.h"
#include "tests/support/worker_memory.h"

// Two daemons, as on two machines, whose workers do as told: what sessions of
// one used is handed to sessions of the other.

namespace kiln {
namespace {

PublicKey KeyOf(TestDaemon& daemon) {
  grpc::ClientContext context;
  wire::DescribeReply said;
  EXPECT_TRUE(CompileStub(daemon.client())->Describe(&context, {}, &said).ok());
  return *PublicKey::FromBytes(said.public_key());
}

class Bundles : public testing::Test {
 protected:
  // A session on the null device, with a shelf.
  std::shared_ptr<Session> Open(const TestDaemon& daemon,
                                std::shared_ptr<ArtifactShelf> shelf,
                                std::vector<PublicKey> trusted = {}) {
    SessionOptions options;
    options.daemon.socket = daemon.config().socket;
    options.daemon.answer_timeout = absl::Seconds(60);
    options.device.kind = DeviceKind::kNull;
    options.trusted_keys = std::move(trusted);
    options.shelf = std::move(shelf);
    auto session = Session::Open(options);
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }

  void Compile(Session& session, const std::string& order, int64_t s0 = 8) {
    const auto callable = session.Compile(FakeRequest({order}, s0).graph());
    EXPECT_TRUE(callable.ok()) << callable.status();
  }

  // What a session of the first daemon used for these orders.
  std::string Saved(const std::vector<std::string>& orders, int64_t s0 = 8) {
    auto shelf = std::make_shared<ArtifactShelf>();
    const auto session = Open(first_, shelf);
    for (const std::string& order : orders) Compile(*session, order, s0);
    return shelf->Save();
  }

  // What loading these bytes beside the second daemon says; nothing of them is
  // found afterwards.
  void ExpectRefused(const std::string& bytes, ErrorReason reason,
                     std::vector<PublicKey> trusted) {
    const int64_t plans = second_.count(Count::kPlans);
    auto shelf = std::make_shared<ArtifactShelf>();
    const auto session = Open(second_, shelf, std::move(trusted));
    const auto loaded = LoadBundle(bytes, {session}, *shelf);
    EXPECT_EQ(ReasonOf(loaded.status()), reason) << loaded.status();
    Compile(*session, absl::StrCat("fake.salt.", plans));
    EXPECT_EQ(second_.count(Count::kPlans), plans + 1);
  }

  TestDaemon first_;
  TestDaemon second_;
};

TEST_F(Bundles, WhatOneMachineUsedAnotherDoesNotCompile) {
  const std::string bundle = Saved({"fake.units.2", "fake.salt.a"});
  auto shelf = std::make_shared<ArtifactShelf>();
  const auto session = Open(second_, shelf, {KeyOf(first_)});
  const auto loaded = LoadBundle(bundle, {session}, *shelf);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(*loaded, 2);
  Compile(*session, "fake.units.2");
  Compile(*session, "fake.salt.a");
  EXPECT_EQ(second_.count(Count::kPlans), 0);
  EXPECT_EQ(second_.count(Count::kCallsLookup), 0);
  // What it did not hold is asked for as ever.
  Compile(*session, "fake.salt.b");
  EXPECT_EQ(second_.count(Count::kPlans), 1);
}

TEST_F(Bundles, WhatWasFoundIsSavedAgain) {
  const std::string bundle = Saved({"fake.units.1"});
  auto shelf = std::make_shared<ArtifactShelf>();
  const auto session = Open(second_, shelf, {KeyOf(first_)});
  ASSERT_TRUE(LoadBundle(bundle, {session}, *shelf).ok());
  EXPECT_NE(shelf->Save(), bundle);  // nothing was used yet
  Compile(*session, "fake.units.1");
  Compile(*session, "fake.units.1");
  EXPECT_EQ(shelf->Save(), bundle);
}

TEST_F(Bundles, AnArtifactWhoseGuardsFailForTheCallIsNotTaken) {
  const std::string bundle = Saved({"fake.guard_mod.4"}, 16);
  auto shelf = std::make_shared<ArtifactShelf>();
  const auto session = Open(second_, shelf, {KeyOf(first_)});
  ASSERT_TRUE(LoadBundle(bundle, {session}, *shelf).ok());
  Compile(*session, "fake.guard_mod.4", 12);
  EXPECT_EQ(second_.count(Count::kPlans), 0);
  // Of the same hint class, so of the same digest.
  Compile(*session, "fake.guard_mod.4", 13);
  EXPECT_GT(second_.count(Count::kPlans), 0);
}

TEST_F(Bundles, AStrangersArtifactsAreUntrusted) {
  ExpectRefused(Saved({"fake.units.1"}), ErrorReason::kArtifactUntrusted, {});
}

TEST_F(Bundles, EveryFlippedByteAndEveryCutIsRefused) {
  const std::string bundle = Saved({"fake.units.1"});
  const std::vector<PublicKey> trusted = {KeyOf(first_)};
  auto shelf = std::make_shared<ArtifactShelf>();
  const auto session = Open(second_, shelf, trusted);
  for (size_t i = 0; i < bundle.size(); ++i) {
    std::string changed = bundle;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(LoadBundle(changed, {session}, *shelf).ok()) << "byte " << i;
    EXPECT_FALSE(LoadBundle(bundle.substr(0, i), {session}, *shelf).ok())
        << "cut at " << i;
  }
  ExpectRefused(bundle.substr(0, bundle.size() - 1),
                ErrorReason::kArtifactCorrupt, trusted);
  ExpectRefused("", ErrorReason::kArtifactCorrupt, trusted);
}

// A bundle that somebody changed and wrote a new digest for.
std::string Rewritten(const std::string& bundle,
                      void (*change)(wire::ArtifactBundle&)) {
  const size_t mark = 8;
  wire::ArtifactBundle message;
  EXPECT_TRUE(message.ParseFromString(bundle.substr(mark + Digest::kBytes)));
  change(message);
  const std::string payload = message.SerializeAsString();
  return absl::StrCat(bundle.substr(0, mark),
                      Sha256().Add(payload).Finish().bytes(), payload);
}

TEST_F(Bundles, AnotherVersionsBundleIsIncompatible) {
  const std::string bundle = Saved({"fake.units.1"});
  ExpectRefused(Rewritten(bundle,
                          [](wire::ArtifactBundle& message) {
                            message.set_version("99.0");
                          }),
                ErrorReason::kArtifactIncompatible, {KeyOf(first_)});
  std::string format = bundle;
  format[7] = '1';
  ExpectRefused(format, ErrorReason::kArtifactIncompatible, {KeyOf(first_)});
}

TEST_F(Bundles, OneArtifactThatIsNotSoundKeepsAllOut) {
  const std::string bundle = Saved({"fake.salt.0", "fake.units.3"});
  const auto unsign_last = [](wire::ArtifactBundle& message) {
    wire::SignedArtifact& last =
        *message.mutable_artifacts(message.artifacts_size() - 1);
    last.clear_signature();
  };
  ExpectRefused(Rewritten(bundle, unsign_last), ErrorReason::kArtifactUntrusted,
                {KeyOf(first_)});
  const auto mix = [](wire::ArtifactBundle& message) {
    message.mutable_artifacts(0)->set_artifact(message.artifacts(1).artifact());
    message.mutable_artifacts(0)->set_xxh3(message.artifacts(1).xxh3());
  };
  ExpectRefused(Rewritten(bundle, mix), ErrorReason::kArtifactUntrusted,
                {KeyOf(first_)});
}

TEST_F(Bundles, ABundleForADeviceThatNoSessionHasIsIncompatible) {
  ArtifactShelf shelf;
  const auto loaded = LoadBundle(Saved({"fake.units.1"}), {}, shelf);
  EXPECT_EQ(ReasonOf(loaded.status()), ErrorReason::kArtifactIncompatible);
  EXPECT_NE(loaded.status().message().find("there is no session for"),
            std::string::npos)
      << loaded.status();
}

TEST_F(Bundles, WhatALocalWorkerMadeIsNotSaved) {
  auto shelf = std::make_shared<ArtifactShelf>();
  SessionOptions options;
  options.local_only = true;
  options.local_worker = {
      .program = std::filesystem::absolute("tests/support/fake_worker"),
      .scratch_root = testing::TempDir(),
      .memory_bytes = kTestWorkerMemoryBytes};
  options.device.kind = DeviceKind::kNull;
  options.shelf = shelf;
  const auto session = Session::Open(options);
  ASSERT_TRUE(session.ok()) << session.status();
  Compile(**session, "fake.units.1");
  EXPECT_EQ(shelf->Save(), WriteBundle({}));
}

TEST_F(Bundles, TheirDevicesAreKnownBeforeASessionIs) {
  const auto devices = DevicesOfBundle(Saved({"fake.units.1"}));
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_EQ(*devices, std::set<DeviceKind>{DeviceKind::kCpu});
}

}  // namespace
}  // namespace kiln
