#include "client/artifact_shelf.h"

#include <utility>

#include "absl/status/statusor.h"
#include "client/artifact_bundle.h"

namespace kiln {
namespace {

// A guard that cannot be evaluated does not hold.
bool GuardsHold(const std::vector<PlanGuard>& guards,
                absl::Span<const int64_t> values) {
  for (const PlanGuard& guard : guards) {
    const absl::StatusOr<int64_t> value =
        guard.condition.EvaluateChecked(values);
    if (!value.ok() || *value == 0) return false;
  }
  return true;
}

}  // namespace

void ArtifactShelf::AddFound(std::vector<Entry> entries) {
  MutexLock lock(&mu_);
  for (Entry& entry : entries) {
    std::vector<Entry>& same = found_[entry.request_digest];
    same.push_back(std::move(entry));
  }
}

void ArtifactShelf::AddUsed(const wire::SignedArtifact& artifact) {
  const Digest digest = Sha256().Add(artifact.artifact()).Finish();
  auto kept = std::make_shared<const wire::SignedArtifact>(artifact);
  MutexLock lock(&mu_);
  used_.emplace(digest, std::move(kept));
}

std::shared_ptr<const wire::SignedArtifact> ArtifactShelf::Find(
    const Digest& request_digest, absl::Span<const int64_t> values) const {
  MutexLock lock(&mu_);
  const auto same = found_.find(request_digest);
  if (same == found_.end()) return nullptr;
  for (const Entry& entry : same->second) {
    if (GuardsHold(entry.guards, values)) return entry.artifact;
  }
  return nullptr;
}

std::string ArtifactShelf::Save() const {
  std::vector<wire::SignedArtifact> artifacts;
  {
    MutexLock lock(&mu_);
    for (const auto& [digest, artifact] : used_) artifacts.push_back(*artifact);
  }
  return WriteBundle(artifacts);
}

}  // namespace kiln
