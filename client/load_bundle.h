#ifndef KILN_CLIENT_LOAD_BUNDLE_H_
#define KILN_CLIENT_LOAD_BUNDLE_H_

#include <memory>
#include <set>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/artifact_shelf.h"
#include "client/session.h"

namespace kiln {

// Puts all artifacts of a bundle on `shelf`, or none of them. Each is verified by the
// session for its kind of device, as if it came from that session's daemon. Returns how
// many there are.
//
// Errors: those of ReadBundle, and with the index of the artifact, from 0:
//   ARTIFACT_CORRUPT       its checksum or structure is wrong
//   ARTIFACT_UNTRUSTED     it is unsigned, or not signed by a key of the session's
//   ARTIFACT_INCOMPATIBLE  it has another format, is for another device than the
//                          session's, or for a kind of device without a session
absl::StatusOr<int> LoadBundle(
    absl::string_view bytes,
    absl::Span<const std::shared_ptr<Session>> sessions, ArtifactShelf& shelf);

// The kinds of devices that a bundle's artifacts are for. The artifacts are not verified.
// Errors: those of ReadBundle; ARTIFACT_CORRUPT for bytes that are not an artifact.
absl::StatusOr<std::set<DeviceKind>> DevicesOfBundle(absl::string_view bytes);

}  // namespace kiln

#endif  // KILN_CLIENT_LOAD_BUNDLE_H_
