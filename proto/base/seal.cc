#include "proto/base/seal.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/assemble.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::Status Untrusted(absl::string_view what) {
  return MakeError(ErrorReason::kArtifactUntrusted,
                   absl::StrCat("artifact: ", what));
}

}  // namespace

wire::SignedArtifact UnsignedArtifact(std::string artifact) {
  wire::SignedArtifact sealed;
  sealed.set_xxh3(Xxh3_64(artifact));
  sealed.set_artifact(std::move(artifact));
  return sealed;
}

wire::SignedArtifact SealArtifact(const SigningKey& key,
                                  wire::ArtifactEnvelope envelope,
                                  std::string artifact) {
  envelope.set_signer(key.public_key().key_id());
  envelope.set_artifact_digest(Sha256Of(artifact).ToBytes());
  wire::SignedArtifact sealed = UnsignedArtifact(std::move(artifact));
  sealed.set_envelope(DeterministicBytes(envelope));
  sealed.set_signature(key.Sign(kArtifactSigningPrefix, sealed.envelope()));
  return sealed;
}

absl::Status CheckArtifactSum(const wire::SignedArtifact& sealed) {
  const uint64_t found = Xxh3_64(sealed.artifact());
  if (found == sealed.xxh3()) return absl::OkStatus();
  return MakeError(
      ErrorReason::kArtifactCorrupt,
      absl::StrCat("artifact: checksum of its ", sealed.artifact().size(),
                   " bytes is ", absl::Hex(found), ", expected ",
                   absl::Hex(sealed.xxh3())));
}

absl::StatusOr<wire::ArtifactEnvelope> OpenSeal(
    const wire::SignedArtifact& sealed, const TrustedKeys& trusted) {
  if (sealed.signature().empty()) {
    return Untrusted("not signed, expected the signature of a trusted key");
  }
  wire::ArtifactEnvelope envelope;
  if (!envelope.ParseFromString(sealed.envelope()))
    return Untrusted("its envelope cannot be read");
  const absl::StatusOr<PublicKey> signer = trusted.Find(envelope.signer());
  if (!signer.ok()) {
    const bool is_revoked = trusted.revoked().contains(envelope.signer());
    return Untrusted(absl::StrCat(
        signer.status().message(),
        is_revoked ? ""
                   : "; name the one that `compilectl keys list` tells beside "
                     "the daemon that signed (--public-key, KILN_PUBLIC_KEY)"));
  }
  RETURN_IF_ERROR(Annotate(
      trusted.CheckCounts(envelope.signer(), envelope.cache_namespace()),
      "artifact"));
  RETURN_IF_ERROR(
      Annotate(signer->Verify(kArtifactSigningPrefix, sealed.envelope(),
                              sealed.signature()),
               "artifact"));
  if (Sha256Of(sealed.artifact()).bytes() == envelope.artifact_digest())
    return envelope;
  return Untrusted("its envelope is that of another artifact");
}

}  // namespace kiln
