#ifndef KILN_PROTO_BASE_SEAL_H_
#define KILN_PROTO_BASE_SEAL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/artifact.pb.h"
#include "proto/base/signature.h"
#include "proto/base/trusted_keys.h"

namespace kiln {

// An artifact's bytes, checked by sum and vouched for by `key`. `envelope` says
// what the artifact is for; its signer and artifact_digest are set here.
wire::SignedArtifact SealArtifact(const SigningKey& key,
                                  wire::ArtifactEnvelope envelope,
                                  std::string artifact);

// The same without anybody's word.
wire::SignedArtifact UnsignedArtifact(std::string artifact);

// ARTIFACT_CORRUPT unless the checksum is that of the artifact's bytes.
absl::Status CheckArtifactSum(const wire::SignedArtifact& sealed);

// What one of `trusted` vouches for, in the namespace that the envelope names.
// The checksum is not looked at.
//
//   ARTIFACT_UNTRUSTED  not signed, by a key that does not count there, a wrong
//                       signature, or an envelope of other bytes
absl::StatusOr<wire::ArtifactEnvelope> OpenSeal(
    const wire::SignedArtifact& sealed, const TrustedKeys& trusted);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_SEAL_H_
