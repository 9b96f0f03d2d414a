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
      std::string(status.message()), RefusalsOf(status)};
}

std::string FoundDue(absl::string_view subject, int64_t found,
                     absl::string_view due) {
  return absl::StrCat(subject, ": found ", found, ", expected ", due);
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
                   absl::StrCat(subject, ": must not be NULL"));
}

absl::Status CheckArray(absl::string_view subject, const void* entries,
                        int64_t count) {
  if (count > 0 && entries == nullptr) {
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat(subject, ": found NULL, expected ", count));
  }
  if (count >= 0) return absl::OkStatus();
  return CheckAtLeast(absl::StrCat("number of ", subject), count, 0);
}

}  // namespace kiln

namespace {

// Null beyond the last.
const kiln::Refusal* RefusalAt(const KilnStatus* status, int32_t index) {
  const auto& all = status->refusals.refusals;
  const bool there = index >= 0 && static_cast<size_t>(index) < all.size();
  return there ? &all[static_cast<size_t>(index)] : nullptr;
}

}  // namespace

int kiln_status_code(const KilnStatus* status) { return status->code; }
const char* kiln_status_reason(const KilnStatus* status) {
  return status->reason.c_str();
}
const char* kiln_status_message(const KilnStatus* status) {
  return status->message.c_str();
}
int32_t kiln_status_refusal_count(const KilnStatus* status) {
  return static_cast<int32_t>(status->refusals.refusals.size());
}
uint32_t kiln_status_refusal_node(const KilnStatus* status, int32_t index) {
  const kiln::Refusal* refusal = RefusalAt(status, index);
  return refusal == nullptr ? 0 : refusal->node;
}
const char* kiln_status_refusal_operator(const KilnStatus* status,
                                         int32_t index) {
  const kiln::Refusal* refusal = RefusalAt(status, index);
  return refusal == nullptr ? "" : refusal->op.c_str();
}
const char* kiln_status_refusal_reason(const KilnStatus* status,
                                       int32_t index) {
  const kiln::Refusal* refusal = RefusalAt(status, index);
  // The names are literals.
  return refusal == nullptr ? "" : kiln::ReasonName(refusal->reason).data();
}
const char* kiln_status_refusal_text(const KilnStatus* status, int32_t index) {
  const kiln::Refusal* refusal = RefusalAt(status, index);
  return refusal == nullptr ? "" : refusal->text.c_str();
}
int kiln_status_refuses_more(const KilnStatus* status) {
  return status->refusals.more ? 1 : 0;
}
void kiln_status_free(KilnStatus* status) { delete status; }
