#ifndef KILN_CLIENT_ARTIFACT_BUNDLE_H_
#define KILN_CLIENT_ARTIFACT_BUNDLE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

namespace wire {
class SignedArtifact;
}  // namespace wire

// Reads and writes bundles: signed artifacts in one string of bytes, to copy to another
// machine. A bundle is a magic number with the format's version, the SHA-256 of the
// rest, and an ArtifactBundle (proto/artifact_bundle.proto).
//
// A bundle that was cut or changed is refused as a whole. But the checksum does not say
// who wrote it: load_bundle.h verifies each artifact's signature and target.

// Equal artifacts in equal order give equal bytes.
std::string WriteBundle(const std::vector<wire::SignedArtifact>& artifacts);

// Errors:
//   ARTIFACT_CORRUPT       not a bundle, or one that was cut short or changed
//   ARTIFACT_INCOMPATIBLE  another format, or written by another version of Kiln
absl::StatusOr<std::vector<wire::SignedArtifact>> ReadBundle(
    absl::string_view bytes);

}  // namespace kiln

#endif  // KILN_CLIENT_ARTIFACT_BUNDLE_H_
