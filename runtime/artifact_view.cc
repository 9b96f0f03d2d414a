#include "runtime/artifact_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/artifact.pb.h"
#include "proto/base/assemble.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"
#include "runtime/device_target.h"
#include "runtime/read_plan.h"

namespace kiln {
namespace {

absl::Status Corrupt(absl::string_view what) {
  return MakeError(ErrorReason::kArtifactCorrupt,
                   absl::StrCat("artifact: ", what));
}

absl::Status CheckSum(const wire::SignedArtifact& sealed) {
  const uint64_t found = Xxh3_64(sealed.artifact());
  if (found == sealed.xxh3()) return absl::OkStatus();
  return Corrupt(absl::StrCat("checksum of its ", sealed.artifact().size(),
                              " bytes is ", absl::Hex(found), ", ",
                              absl::Hex(sealed.xxh3()), " is due"));
}

absl::Status CheckSigner(const wire::SignedArtifact& sealed,
                         const TrustPolicy& trust) {
  if (sealed.signature().empty()) {
    if (trust.unsigned_artifacts == TrustPolicy::Unsigned::kAllow) {
      return absl::OkStatus();
    }
    return MakeError(
        ErrorReason::kArtifactUntrusted,
        absl::StrCat("artifact: not signed, a signature by one of ",
                     trust.public_keys.size(), " trusted keys is due"));
  }
  for (const PublicKey& key : trust.public_keys) {
    if (key.key_id() != sealed.key_id()) continue;
    return Annotate(key.Verify(kArtifactSigningPrefix, sealed.artifact(),
                               sealed.signature()),
                    "artifact");
  }
  return MakeError(
      ErrorReason::kArtifactUntrusted,
      absl::StrCat("artifact: signed by the key with the id ",
                   absl::BytesToHexString(sealed.key_id()), ", none of the ",
                   trust.public_keys.size(),
                   " trusted keys; KILN_PUBLIC_KEY takes that key, which "
                   "`compilectl version` tells beside the daemon that signed"));
}

absl::Status CheckFormat(const wire::Artifact& artifact) {
  if (artifact.format_version() == kArtifactFormatVersion) {
    return absl::OkStatus();
  }
  return MakeError(
      ErrorReason::kArtifactIncompatible,
      absl::StrCat("artifact: format version ", artifact.format_version(), ", ",
                   kArtifactFormatVersion, " is due"));
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
  RETURN_IF_ERROR(CheckSum(sealed));
  RETURN_IF_ERROR(CheckSigner(sealed, trust));
  auto artifact = std::make_shared<wire::Artifact>();
  if (!artifact->ParseFromString(sealed.artifact())) {
    return Corrupt("its bytes are no Artifact message");
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
