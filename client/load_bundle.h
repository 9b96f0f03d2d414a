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

// Puts the artifacts of a bundle on `shelf`: all of them, or none. Each is
// verified by the session of its kind of device as if its daemon had given it.
// Gives their number.
//
// Errors, naming the artifact by its place from 0:
//   those of ReadBundle
//   ARTIFACT_CORRUPT       an artifact's checksum or structure
//   ARTIFACT_UNTRUSTED     unsigned, or signed by none of the session's keys
//   ARTIFACT_INCOMPATIBLE  of another format, for another device than the
//                          session's, or for a kind that no session is for
absl::StatusOr<int> LoadBundle(
    absl::string_view bytes,
    absl::Span<const std::shared_ptr<Session>> sessions, ArtifactShelf& shelf);

// The kinds of devices that a bundle's artifacts are for. Errors: those of
// ReadBundle; ARTIFACT_CORRUPT for bytes that are not an artifact. Nothing else is looked
// at, so a kind is not yet a promise.
absl::StatusOr<std::set<DeviceKind>> DevicesOfBundle(absl::string_view bytes);

}  // namespace kiln

#endif  // KILN_CLIENT_LOAD_BUNDLE_H_
