#include "client/c_api/c_status.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {

KilnStatus* StatusOf(const absl::Status& status) {
  if (status.ok()) return nullptr;
  const std::optional<ErrorReason> reason = ReasonOf(status);
  return new KilnStatus{
      static_cast<int>(status.code()),
      reason.has_value() ? std::string(ReasonName(*reason)) : "",
      std::string(status.message())};
}

std::string FoundDue(absl::string_view subject, int64_t found,
                     absl::string_view due) {
  return absl::StrCat(subject, ": found ", found, ", due ", due);
}

absl::Status CheckRange(absl::string_view subject, int64_t found, int64_t low,
                        int64_t high) {
  if (found >= low && found <= high) return absl::OkStatus();
  return MakeError(ErrorReason::kBadOption,
                   FoundDue(subject, found, absl::StrCat(low, " to ", high)));
}

absl::Status CheckAtLeast(absl::string_view subject, int64_t found,
                          int64_t low) {
  if (found >= low) return absl::OkStatus();
  return MakeError(ErrorReason::kBadOption,
                   FoundDue(subject, found, absl::StrCat(low, " or more")));
}

absl::Status CheckStructSize(absl::string_view subject, size_t found,
                             size_t least) {
  if (found >= least) return absl::OkStatus();
  return MakeError(ErrorReason::kBadOption,
                   FoundDue(absl::StrCat(subject, ": struct_size"),
                            static_cast<int64_t>(found),
                            absl::StrCat(least, ", the size of the struct")));
}

absl::Status CheckGiven(absl::string_view subject, const void* pointer) {
  if (pointer != nullptr) return absl::OkStatus();
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat(subject, ": found NULL, due one"));
}

absl::Status CheckArray(absl::string_view subject, const void* entries,
                        int64_t count) {
  if (count > 0 && entries == nullptr) {
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat(subject, ": found NULL, due ", count));
  }
  if (count >= 0) return absl::OkStatus();
  return CheckAtLeast(absl::StrCat("number of ", subject), count, 0);
}

}  // namespace kiln

int kiln_status_code(const KilnStatus* status) { return status->code; }
const char* kiln_status_reason(const KilnStatus* status) {
  return status->reason.c_str();
}
const char* kiln_status_message(const KilnStatus* status) {
  return status->message.c_str();
}
void kiln_status_free(KilnStatus* status) { delete status; }
