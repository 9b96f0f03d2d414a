#include "client/daemon_status.h"

#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr char kSilentUrl[] = "kiln.silent";
constexpr char kRetryUrl[] = "kiln.retry";

// UNIMPLEMENTED in gRPC's own word: what answers has no such call. A daemon of
// another version, or another service altogether.
bool SpeaksOtherwise(const absl::Status& status) {
  return absl::IsUnimplemented(status) && !ReasonOf(status).has_value();
}

}  // namespace

bool ConnectionLost(const absl::Status& status) {
  return (absl::IsUnavailable(status) || absl::IsCancelled(status)) &&
         !ReasonOf(status).has_value() && !DaemonIsSilent(status);
}

absl::Status MarkSilent(absl::Status status) {
  status.SetPayload(kSilentUrl, absl::Cord());
  return status;
}

bool DaemonIsSilent(const absl::Status& status) {
  return status.GetPayload(kSilentUrl).has_value();
}

absl::Status MarkRetry(absl::Status status, absl::Duration delay) {
  status.SetPayload(kRetryUrl, absl::Cord(absl::FormatDuration(delay)));
  return status;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryUrl);
  absl::Duration delay;
  if (!payload.has_value() ||
      !absl::ParseDuration(std::string(*payload), &delay))
    return std::nullopt;
  return delay;
}

bool DaemonIsGone(const absl::Status& status) {
  return ConnectionLost(status) || ReasonOf(status) == ErrorReason::kDraining;
}

bool DaemonIsNotThere(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) ||
         absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status) || absl::IsAborted(status) ||
         SpeaksOtherwise(status) ||
         ReasonOf(status) == ErrorReason::kNoToolchain;
}

bool KnowsOtherOptions(const absl::Status& status) {
  return ReasonOf(status) == ErrorReason::kBadOption;
}

bool DaemonLies(const absl::Status& status) {
  const std::optional<ErrorReason> reason = ReasonOf(status);
  return reason == ErrorReason::kArtifactCorrupt ||
         reason == ErrorReason::kArtifactUntrusted ||
         reason == ErrorReason::kArtifactIncompatible;
}

}  // namespace kiln
