#include "cache/far/redis_reply.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/status.h"

namespace kiln {

absl::Status CheckReplies(const std::vector<RespValue>& replies) {
  for (const RespValue& reply : replies) {
    if (!reply.is(RespValue::Kind::kError)) continue;
    // Its first word is its kind; the rest may repeat what was sent.
    const std::pair<absl::string_view, absl::string_view> words =
        absl::StrSplit(reply.text, absl::MaxSplits(' ', 1));
    return MakeError(
        ErrorReason::kStorage,
        absl::StrCat("redis: it answers with the error ", words.first));
  }
  return absl::OkStatus();
}

absl::Status NoSense(absl::string_view command) {
  return MakeError(
      ErrorReason::kArtifactCorrupt,
      absl::StrCat("redis: another reply to ", command, " than expected"));
}

}  // namespace kiln
