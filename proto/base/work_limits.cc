#include "proto/base/work_limits.h"

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {

bool AreConditionsFew(
    const wire::GuardSet& guards,
    const google::protobuf::RepeatedPtrField<std::string>& tuned) {
  if (guards.symbols_size() + int64_t{tuned.size()} > kMostConditions)
    return false;
  size_t bytes = guards.ByteSizeLong();
  for (const std::string& choice : tuned) bytes += choice.size();
  return bytes <= kMostConditionBytes;
}

absl::Status CheckPlanSize(const wire::CompilePlan& plan,
                           absl::string_view graph) {
  if (plan.units_size() > kMostUnits) {
    return MakeError(
        ErrorReason::kTooLarge,
        absl::StrCat("graph ", graph, ": its plan has ", plan.units_size(),
                     " units, at most ", kMostUnits, " are built"));
  }
  if (!AreConditionsFew(plan.guards(), plan.tuned())) {
    return MakeError(
        ErrorReason::kTooLarge,
        absl::StrCat("graph ", graph, ": its plan has ",
                     plan.guards().symbols_size(), " guards and ",
                     plan.tuned_size(), " choices, at most ", kMostConditions,
                     " of ", kMostConditionBytes, " bytes in all are kept"));
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
