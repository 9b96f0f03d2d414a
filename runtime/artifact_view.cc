#include "runtime/artifact_view.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/artifact.pb.h"
#include "proto/base/assemble.h"
#include "proto/base/seal.h"
#include "proto/base/status.h"
#include "runtime/device_target.h"
#include "runtime/read_plan.h"

namespace kiln {
namespace {

absl::Status Corrupt(absl::string_view what) {
  return MakeError(ErrorReason::kArtifactCorrupt,
                   absl::StrCat("artifact: ", what));
}

// Empty for an unsigned one, where those are allowed.
absl::StatusOr<std::optional<wire::ArtifactEnvelope>> CheckSigner(
    const wire::SignedArtifact& sealed, const TrustPolicy& trust) {
  if (sealed.signature().empty() &&
      trust.unsigned_artifacts == TrustPolicy::Unsigned::kAllow) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(wire::ArtifactEnvelope envelope,
                   OpenSeal(sealed, trust.keys));
  return envelope;
}

absl::Status CheckFormat(const wire::Artifact& artifact) {
  if (artifact.format_version() == kArtifactFormatVersion) {
    return absl::OkStatus();
  }
  return MakeError(
      ErrorReason::kArtifactIncompatible,
      absl::StrCat("artifact: found format version ", artifact.format_version(),
                   ", expected ", kArtifactFormatVersion));
}

absl::StatusOr<std::vector<PlanGuard>> ReadGuards(
    const wire::CompilePlan& compiled) {
  std::vector<PlanGuard> guards;
  for (const wire::SymGuard& from : compiled.guards().symbols()) {
    absl::StatusOr<SymProgram> condition =
        SymProgram::FromWire(from.condition(), compiled.plan().symbols_size());
    if (!condition.ok()) {
      return Corrupt(absl::StrCat("guard ", from.origin(), ": ",
                                  condition.status().message()));
    }
    guards.push_back({*std::move(condition), from.origin()});
  }
  return guards;
}

}  // namespace

absl::StatusOr<ArtifactView> ArtifactView::Parse(
    const wire::SignedArtifact& sealed, const TrustPolicy& trust,
    const DeviceTraits& device) {
  RETURN_IF_ERROR(CheckArtifactSum(sealed));
  ASSIGN_OR_RETURN(const std::optional<wire::ArtifactEnvelope> envelope,
                   CheckSigner(sealed, trust));
  auto artifact = std::make_shared<wire::Artifact>();
  if (!artifact->ParseFromString(sealed.artifact())) {
    return Corrupt("its bytes are no Artifact message");
  }
  if (envelope.has_value() &&
      envelope->compile_key() != artifact->compile_key()) {
    return MakeError(ErrorReason::kArtifactUntrusted,
                     "artifact: its envelope is for another compile key");
  }
  RETURN_IF_ERROR(CheckFormat(*artifact));
  RETURN_IF_ERROR(CheckTarget(artifact->target(), device));
  RETURN_IF_ERROR(CheckDriver(artifact->least_driver_cuda_version(), device));
  ArtifactView view;
  ASSIGN_OR_RETURN(Plan plan, ReadPlan(*artifact));
  ASSIGN_OR_RETURN(view.guards_, ReadGuards(artifact->compiled()));
  view.plan_ = std::make_shared<const Plan>(std::move(plan));
  for (const wire::ObjectCode& object : artifact->objects()) {
    view.images_.push_back(object.image());
  }
  view.interface_digest_ = artifact->interface_digest();
  view.compile_key_ = artifact->compile_key();
  view.is_signed_ = envelope.has_value();
  if (envelope.has_value()) view.cache_namespace_ = envelope->cache_namespace();
  view.artifact_ = std::move(artifact);
  return view;
}

const std::string& ArtifactView::request_digest() const {
  return artifact_->request_digest();
}

absl::StatusOr<ArtifactView> ArtifactView::ParseBytes(
    absl::string_view bytes, const TrustPolicy& trust,
    const DeviceTraits& device) {
  wire::SignedArtifact sealed;
  if (!sealed.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Corrupt(absl::StrCat("its ", bytes.size(),
                                " bytes are no SignedArtifact message"));
  }
  return Parse(sealed, trust, device);
}

}  // namespace kiln
