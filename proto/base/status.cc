#include "proto/base/status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr absl::string_view kReasonUrl = "kiln.ErrorReason";

struct ReasonRow {
  ErrorReason reason;
  absl::string_view name;
  absl::StatusCode code;
};

constexpr ReasonRow kReasons[] = {
    {ErrorReason::kMalformedGraph, "MALFORMED_GRAPH",
     absl::StatusCode::kInvalidArgument},
    {ErrorReason::kBadTarget, "BAD_TARGET", absl::StatusCode::kInvalidArgument},
    {ErrorReason::kBadOption, "BAD_OPTION", absl::StatusCode::kInvalidArgument},
    {ErrorReason::kUnsupportedOp, "UNSUPPORTED_OP",
     absl::StatusCode::kUnimplemented},
    {ErrorReason::kTooLarge, "TOO_LARGE", absl::StatusCode::kOutOfRange},
    {ErrorReason::kToolchainRejected, "TOOLCHAIN_REJECTED",
     absl::StatusCode::kInternal},
    {ErrorReason::kNoToolchain, "NO_TOOLCHAIN",
     absl::StatusCode::kFailedPrecondition},
    {ErrorReason::kWorkerDied, "WORKER_DIED", absl::StatusCode::kUnavailable},
    {ErrorReason::kJobPoisoned, "JOB_POISONED", absl::StatusCode::kAborted},
    {ErrorReason::kQueueFull, "QUEUE_FULL",
     absl::StatusCode::kResourceExhausted},
    {ErrorReason::kDraining, "DRAINING", absl::StatusCode::kUnavailable},
    {ErrorReason::kArtifactIncompatible, "ARTIFACT_INCOMPATIBLE",
     absl::StatusCode::kFailedPrecondition},
    {ErrorReason::kArtifactCorrupt, "ARTIFACT_CORRUPT",
     absl::StatusCode::kDataLoss},
    {ErrorReason::kArtifactUntrusted, "ARTIFACT_UNTRUSTED",
     absl::StatusCode::kPermissionDenied},
    {ErrorReason::kGuardFailed, "GUARD_FAILED",
     absl::StatusCode::kFailedPrecondition},
    {ErrorReason::kStorage, "STORAGE", absl::StatusCode::kUnavailable},
    {ErrorReason::kInUse, "IN_USE", absl::StatusCode::kAlreadyExists},
    {ErrorReason::kPermission, "PERMISSION",
     absl::StatusCode::kPermissionDenied},
    {ErrorReason::kNoDevice, "NO_DEVICE",
     absl::StatusCode::kFailedPrecondition},
    {ErrorReason::kUnauthenticated, "UNAUTHENTICATED",
     absl::StatusCode::kUnauthenticated},
};

const ReasonRow& RowOf(ErrorReason reason) {
  return kReasons[static_cast<int>(reason)];
}

}  // namespace

absl::string_view ReasonName(ErrorReason reason) { return RowOf(reason).name; }

std::optional<ErrorReason> ReasonFromName(absl::string_view name) {
  for (const ReasonRow& row : kReasons) {
    if (row.name == name) return row.reason;
  }
  return std::nullopt;
}

absl::StatusCode CodeOf(ErrorReason reason) { return RowOf(reason).code; }

absl::Status MakeError(ErrorReason reason, absl::string_view message) {
  absl::Status status(CodeOf(reason), message);
  status.SetPayload(kReasonUrl, absl::Cord(ReasonName(reason)));
  return status;
}

std::optional<ErrorReason> ReasonOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kReasonUrl);
  if (!payload.has_value()) return std::nullopt;
  return ReasonFromName(std::string(*payload));
}

absl::Status Annotate(absl::Status status, absl::string_view where) {
  if (status.ok()) return status;
  absl::Status longer(status.code(),
                      absl::StrCat(where, ": ", status.message()));
  status.ForEachPayload(
      [&longer](absl::string_view url, const absl::Cord& payload) {
        longer.SetPayload(url, payload);
      });
  return longer;
}

}  // namespace kiln
