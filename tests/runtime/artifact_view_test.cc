#include "runtime/artifact_view.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/artifact.pb.h"
#include "proto/base/digest.h"
#include "proto/base/seal.h"
#include "proto/base/status.h"
#include "runtime/cpu_device.h"
#include "runtime/device_target.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

using testing::HasSubstr;

constexpr char kEmptyPlan[] = "outputs { none {} }";

SigningKey NewKey() {
  auto key = SigningKey::Generate();
  EXPECT_TRUE(key.ok()) << key.status();
  return *key;
}

wire::SignedArtifact SealedBy(const SigningKey& key,
                              const wire::Artifact& artifact) {
  wire::ArtifactEnvelope envelope;
  envelope.set_compile_key(artifact.compile_key());
  return SealArtifact(key, envelope, artifact.SerializeAsString());
}

absl::Status Parsed(const wire::SignedArtifact& sealed,
                    const TrustPolicy& trust) {
  return ArtifactView::Parse(sealed, trust, HostTraits()).status();
}

TrustPolicy TrustsUnsigned() { return {{}, TrustPolicy::Unsigned::kAllow}; }

TEST(ArtifactView, ASignedArtifactOfATrustedKeyIsTaken) {
  const SigningKey key = NewKey();
  const TrustPolicy trust{{NewKey().public_key(), key.public_key()}};
  const auto sealed = SealedBy(key, MakeTestArtifact(kEmptyPlan));
  EXPECT_TRUE(Parsed(sealed, trust).ok()) << Parsed(sealed, trust);
  const auto from_bytes =
      ArtifactView::ParseBytes(sealed.SerializeAsString(), trust, HostTraits());
  EXPECT_TRUE(from_bytes.ok()) << from_bytes.status();
}

TEST(ArtifactView, WithoutATrustedSignatureItIsUntrusted) {
  const SigningKey key = NewKey();
  const wire::Artifact artifact = MakeTestArtifact(kEmptyPlan);
  const TrustPolicy trust{{key.public_key()}};
  EXPECT_EQ(ReasonOf(Parsed(Seal(artifact), trust)),
            ErrorReason::kArtifactUntrusted);
  EXPECT_EQ(ReasonOf(Parsed(SealedBy(NewKey(), artifact), trust)),
            ErrorReason::kArtifactUntrusted);
  // A signature of another artifact, also where none is needed.
  auto wrong = SealedBy(key, artifact);
  wrong.set_signature(key.Sign(kArtifactSigningPrefix, "other bytes"));
  EXPECT_EQ(ReasonOf(Parsed(wrong, trust)), ErrorReason::kArtifactUntrusted);
  // A sound envelope around other bytes, and one for another key.
  wire::Artifact other = artifact;
  other.set_request_digest(std::string(32, 'o'));
  auto foreign = SealedBy(key, artifact);
  foreign.set_artifact(other.SerializeAsString());
  foreign.set_xxh3(Xxh3_64(foreign.artifact()));
  EXPECT_EQ(ReasonOf(Parsed(foreign, trust)), ErrorReason::kArtifactUntrusted);
  wire::ArtifactEnvelope for_another;
  for_another.set_compile_key(std::string(32, 'k'));
  EXPECT_EQ(
      ReasonOf(Parsed(
          SealArtifact(key, for_another, artifact.SerializeAsString()), trust)),
      ErrorReason::kArtifactUntrusted);
  TrustPolicy either = trust;
  either.unsigned_artifacts = TrustPolicy::Unsigned::kAllow;
  EXPECT_EQ(ReasonOf(Parsed(wrong, either)), ErrorReason::kArtifactUntrusted);
  // Nobody is trusted by default.
  EXPECT_EQ(ReasonOf(Parsed(SealedBy(key, artifact), {})),
            ErrorReason::kArtifactUntrusted);
}

TEST(ArtifactView, AFlippedBitAnywhereIsCorrupt) {
  const auto sealed = Seal(MakeTestArtifact(kEmptyPlan));
  const size_t bytes = sealed.artifact().size();
  for (const size_t at : {size_t{0}, bytes / 2, bytes - 1}) {
    auto flipped = sealed;
    (*flipped.mutable_artifact())[at] ^= 4;
    EXPECT_EQ(ReasonOf(Parsed(flipped, TrustsUnsigned())),
              ErrorReason::kArtifactCorrupt);
  }
}

TEST(ArtifactView, BytesThatAreNoMessageAreCorrupt) {
  wire::SignedArtifact sealed;
  sealed.set_artifact("\xff\xff\xff\xff no protobuf");
  sealed.set_xxh3(Xxh3_64(sealed.artifact()));
  EXPECT_EQ(ReasonOf(Parsed(sealed, TrustsUnsigned())),
            ErrorReason::kArtifactCorrupt);
  EXPECT_EQ(ReasonOf(ArtifactView::ParseBytes("\xff\xff", TrustsUnsigned(),
                                              HostTraits())
                         .status()),
            ErrorReason::kArtifactCorrupt);
}

TEST(ArtifactView, AnotherFormatVersionIsIncompatible) {
  wire::Artifact artifact = MakeTestArtifact(kEmptyPlan);
  artifact.set_format_version(99);
  const absl::Status status = Parsed(Seal(artifact), TrustsUnsigned());
  EXPECT_EQ(ReasonOf(status), ErrorReason::kArtifactIncompatible);
  EXPECT_THAT(status.message(), HasSubstr("found format version 99, expected 4"));
}

TEST(ArtifactView, AnotherDeviceIsIncompatible) {
  wire::Artifact artifact = MakeTestArtifact(kEmptyPlan);
  artifact.mutable_target()->mutable_cuda()->set_arch("sm_90");
  const absl::Status status = Parsed(Seal(artifact), TrustsUnsigned());
  EXPECT_EQ(ReasonOf(status), ErrorReason::kArtifactIncompatible);
  EXPECT_THAT(status.message(), HasSubstr("made for sm_90, this is cpu"));
}

TEST(DeviceTarget, ADeviceTakesWhatItHasAndNoMore) {
  DeviceTraits cpu;
  cpu.kind = DeviceKind::kCpu;
  cpu.cpu_level = 3;
  DeviceTraits gpu;
  gpu.kind = DeviceKind::kCuda;
  gpu.compute_major = 9;
  gpu.compute_minor = 0;
  gpu.driver_cuda_version = 13000;
  EXPECT_TRUE(CheckTarget(TargetOf(cpu), cpu).ok());
  EXPECT_TRUE(CheckTarget(TargetOf(gpu), gpu).ok());
  EXPECT_FALSE(CheckTarget(TargetOf(cpu), gpu).ok());
  EXPECT_FALSE(CheckTarget(TargetOf(gpu), cpu).ok());
  const auto cpu_takes = [&](const char* level, bool bf16) {
    wire::Target target;
    target.mutable_cpu()->set_level(level);
    target.mutable_cpu()->set_avx512_bf16(bf16);
    return CheckTarget(target, cpu).ok();
  };
  EXPECT_TRUE(cpu_takes("x86-64", false));
  EXPECT_TRUE(cpu_takes("x86-64-v3", false));
  EXPECT_FALSE(cpu_takes("x86-64-v4", false));
  EXPECT_FALSE(cpu_takes("x86-64-v3", true));
  EXPECT_FALSE(cpu_takes("armv9", false));
  const auto gpu_takes = [&](const char* arch) {
    wire::Target target;
    target.mutable_cuda()->set_arch(arch);
    return CheckTarget(target, gpu).ok();
  };
  EXPECT_TRUE(gpu_takes("sm_90"));
  EXPECT_TRUE(gpu_takes("sm_90a"));
  EXPECT_FALSE(gpu_takes("sm_80"));
  EXPECT_FALSE(gpu_takes("sm_100"));
  EXPECT_FALSE(gpu_takes("90"));
  EXPECT_TRUE(CheckDriver(0, gpu).ok());
  EXPECT_TRUE(CheckDriver(13000, gpu).ok());
  EXPECT_TRUE(CheckDriver(13000, cpu).ok());
  EXPECT_EQ(ReasonOf(CheckDriver(14000, gpu)),
            ErrorReason::kArtifactIncompatible);
}

struct BrokenPlan {
  const char* plan;
  const char* message;
};

TEST(ArtifactView, APlanThatBreaksARuleIsRefusedByItsNumber) {
  const BrokenPlan cases[] = {
      {"symbols { name: 's0' source { kind: KIND_SIZE input: 3 } }", "R1"},
      {"symbols { name: 's0' }", "R1: symbol s0 has no source"},
      {"buffers { kind: KIND_INPUT index: 1 name: 'x' }", "R1: buffer x"},
      {"buffers { kind: KIND_CONSTANT name: 'c' }", "R1: buffer c"},
      {"buffers { name: 'b' }", "R1: buffer b has no kind"},
      {"kernels { symbol: 'k' label: 'k' module: 1 }", "R1: kernel k"},
      {"steps { launch { kernel: 0 grid { value: 1 } grid { value: 1 } "
       "grid { value: 1 } block: 1 block: 1 block: 1 } }",
       "step 0: launch plan: R1: kernel 0 of 0"},
      {"kernels { symbol: 'test_add' } steps { launch { kernel: 0 "
       "args { buffer { buffer: 2 } } grid { value: 1 } grid { value: 1 } "
       "grid { value: 1 } block: 1 block: 1 block: 1 } }",
       "R1: buffer 2 of 0"},
      {"arena_bytes { value: 63 } buffers { kind: KIND_ARENA name: 'b' "
       "bytes { value: 64 } }",
       "R3: buffer b: 64 bytes at 0 in an arena of 63"},
      {"buffers { kind: KIND_OUTPUT name: 'y' bytes { value: 8 } } "
       "outputs { view { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 3 } "
       "strides { value: 1 } } }",
       "R3"},
      {"buffers { kind: KIND_OUTPUT name: 'y' bytes { value: 8 } } "
       "outputs { view { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 2 } } }",
       "R2"},
      {"buffers { kind: KIND_OUTPUT name: 'y' bytes { value: 8 } } "
       "outputs { view { buffer: 0 dtype: DTYPE_COMPLEX64 } }",
       "R2: dtype"},
      {"kernels { symbol: 'test_add' } steps { launch { kernel: 0 "
       "grid { value: 1 } block: 1 block: 1 block: 1 } }",
       "R4: 1 grid and 3 block"},
      {"kernels { symbol: 'test_add' } steps { launch { kernel: 0 "
       "grid { value: 1 } grid { value: 1 } grid { value: 1 } block: 0 "
       "block: 1 block: 1 } }",
       "R4: block extent 0"},
      {"symbols { name: 's0' source { kind: KIND_STEP } }", "R5: symbol s0"},
      {"symbols { name: 's0' source { kind: KIND_STEP } } "
       "steps { bind_symbol { symbol: 0 } } "
       "steps { bind_symbol { symbol: 0 } }",
       "R5: symbol s0 is bound twice"},
      {"buffers { kind: KIND_OUTPUT name: 'y' bytes { value: 8 } } "
       "steps { copy { from { buffer: 0 dtype: DTYPE_FLOAT32 } "
       "to { buffer: 0 dtype: DTYPE_INT32 } } }",
       "R6"},
      {"arena_bytes { value: 8 } buffers { kind: KIND_ARENA name: 'b' "
       "bytes { value: 8 } } outputs { view { buffer: 0 "
       "dtype: DTYPE_FLOAT32 } }",
       "R7"},
      {"arena_bytes { code { op: SYM_OP_ADD } }", "finds 0 values"},
      {"steps { }", "a step of no kind"},
  };
  for (const BrokenPlan& broken : cases) {
    const absl::Status status =
        Parsed(Seal(MakeTestArtifact(broken.plan)), TrustsUnsigned());
    EXPECT_EQ(ReasonOf(status), ErrorReason::kArtifactCorrupt) << broken.plan;
    EXPECT_THAT(status.message(), HasSubstr(broken.message)) << broken.plan;
  }
}

TEST(ArtifactView, WhatTheRuntimeDoesNotRunItSaysByName) {
  const BrokenPlan cases[] = {
      {"steps { host_call { op: 'aten.fft_fft.default' } }",
       "host call of aten.fft_fft.default"},
      {"steps { region { kind: 'while' } }", "region while"},
  };
  for (const BrokenPlan& unbuilt : cases) {
    const absl::Status status =
        Parsed(Seal(MakeTestArtifact(unbuilt.plan)), TrustsUnsigned());
    EXPECT_EQ(ReasonOf(status), ErrorReason::kUnsupportedOp);
    EXPECT_THAT(status.message(), HasSubstr(unbuilt.message));
  }
}

TEST(LoadedArtifact, ObjectCodeThatIsNoneIsCorrupt) {
  wire::Artifact artifact = MakeTestArtifact(kEmptyPlan);
  artifact.mutable_objects(0)->set_image("not an object");
  EXPECT_EQ(ReasonOf(Load(Seal(artifact), TestCpu()).status()),
            ErrorReason::kArtifactCorrupt);
  artifact = MakeTestArtifact("kernels { symbol: 'absent' }");
  const absl::Status status = Load(Seal(artifact), TestCpu()).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kArtifactCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("kernel absent"));
}

TEST(LoadedArtifact, AnExpressionUsedBeforeItsSymbolIsBoundIsCorrupt) {
  const absl::Status status = Load(Seal(MakeTestArtifact(R"(
    symbols { name: "s0" source { kind: KIND_STEP } }
    steps { assertion { condition { code { op: SYM_OP_SYMBOL } } } }
    steps { bind_symbol { symbol: 0 value { value: 3 } } }
  )")),
                                   TestCpu())
                                  .status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kArtifactCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("R5: s0"));
}

TEST(LoadedArtifact, AnExternCallThatNobodyTakesIsNamedAtLoad) {
  const absl::Status status = Load(Seal(MakeTestArtifact(R"(
    steps { extern_call { name: "cholesky" } }
  )")),
                                   TestCpu())
                                  .status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kUnsupportedOp);
  EXPECT_THAT(status.message(), HasSubstr("extern call cholesky"));
}

}  // namespace
}  // namespace kiln
