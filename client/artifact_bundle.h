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

// Signed artifacts as one string of bytes, for another machine: a mark with the
// format's number, the SHA-256 of what follows, an ArtifactBundle
// (proto/artifact_bundle.proto).
//
// Decides: the form, and that bytes which were cut or changed are refused as a
// whole. Leaves alone: whom to trust and what each artifact is good for
// (load_bundle.h); nothing here is evidence of who made it.

// Equal artifacts in equal order give equal bytes.
std::string WriteBundle(const std::vector<wire::SignedArtifact>& artifacts);

// Errors:
//   ARTIFACT_CORRUPT       no bundle, cut short, or changed on the way
//   ARTIFACT_INCOMPATIBLE  of another format, or written by another version
absl::StatusOr<std::vector<wire::SignedArtifact>> ReadBundle(
    absl::string_view bytes);

}  // namespace kiln

#endif  // KILN_CLIENT_ARTIFACT_BUNDLE_H_
