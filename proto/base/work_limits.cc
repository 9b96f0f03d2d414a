#include "proto/base/work_limits.h"

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {

absl::Status CheckPlanSize(const wire::CompilePlan& plan,
                           absl::string_view graph) {
  if (plan.units_size() > kMostUnits) {
    return MakeError(
        ErrorReason::kTooLarge,
        absl::StrCat("graph ", graph, ": its plan has ", plan.units_size(),
                     " units, at most ", kMostUnits, " are built"));
  }
  int64_t bytes = 0;
  for (const wire::TranslationUnit& unit : plan.units()) {
    bytes += static_cast<int64_t>(unit.source().size());
  }
  if (bytes <= kMostSourceBytes) return absl::OkStatus();
  return MakeError(ErrorReason::kTooLarge,
                   absl::StrCat("graph ", graph, ": its kernels have ", bytes,
                                " bytes of source, at most ", kMostSourceBytes,
                                " are built"));
}

}  // namespace kiln
