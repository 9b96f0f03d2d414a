#include "client/load_bundle.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/artifact_bundle.h"
#include "proto/artifact.pb.h"
#include "proto/base/status.h"
#include "proto/key/request_digest.h"
#include "runtime/device.h"

namespace kiln {
namespace {

absl::StatusOr<wire::Target> TargetOf(const wire::SignedArtifact& artifact) {
  wire::Artifact message;
  if (!message.ParseFromString(artifact.artifact())) {
    return MakeError(ErrorReason::kArtifactCorrupt, "not an artifact");
  }
  return std::move(*message.mutable_target());
}

DeviceKind KindOf(const wire::Target& target) {
  return target.has_cuda() ? DeviceKind::kCuda : DeviceKind::kCpu;
}

absl::StatusOr<ArtifactShelf::Entry> Verified(
    wire::SignedArtifact artifact,
    absl::Span<const std::shared_ptr<Session>> sessions) {
  ASSIGN_OR_RETURN(const wire::Target target, TargetOf(artifact));
  for (const std::shared_ptr<Session>& session : sessions) {
    const DeviceKind kind = session->device().device->traits().kind;
    // The null device is for any target.
    if (kind != KindOf(target) && kind != DeviceKind::kNull) continue;
    return session->Verify(std::move(artifact));
  }
  return MakeError(ErrorReason::kArtifactIncompatible,
                   absl::StrCat("it is for ", TargetText(target),
                                ", and there is no session for such a device"));
}

}  // namespace

absl::StatusOr<int> LoadBundle(
    absl::string_view bytes,
    absl::Span<const std::shared_ptr<Session>> sessions, ArtifactShelf& shelf) {
  ASSIGN_OR_RETURN(std::vector<wire::SignedArtifact> artifacts,
                   ReadBundle(bytes));
  // Bundles last: their signer may have been revoked since the daemon was reached.
  for (const std::shared_ptr<Session>& session : sessions)
    session->RefreshTrust();
  std::vector<ArtifactShelf::Entry> entries;
  for (size_t i = 0; i < artifacts.size(); ++i) {
    absl::StatusOr<ArtifactShelf::Entry> entry =
        Verified(std::move(artifacts[i]), sessions);
    if (!entry.ok()) {
      return Annotate(entry.status(), absl::StrCat("bundle: artifact ", i));
    }
    entries.push_back(*std::move(entry));
  }
  const int count = static_cast<int>(entries.size());
  shelf.AddFound(std::move(entries));
  return count;
}

absl::StatusOr<std::set<DeviceKind>> DevicesOfBundle(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const std::vector<wire::SignedArtifact> artifacts,
                   ReadBundle(bytes));
  std::set<DeviceKind> kinds;
  for (const wire::SignedArtifact& artifact : artifacts) {
    ASSIGN_OR_RETURN(const wire::Target target, TargetOf(artifact));
    kinds.insert(KindOf(target));
  }
  return kinds;
}

}  // namespace kiln
