#include "cache/far/far_pause.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"

namespace kiln {
namespace {

constexpr absl::string_view kPauseMark = "kiln/far-pause";

}  // namespace

absl::Status FarBreaker::MayAsk() {
  if (breaker_.MayAsk(SteadyNow())) return absl::OkStatus();
  MutexLock lock(&mu_);
  absl::Status status =
      MakeError(ErrorReason::kStorage,
                absl::StrCat(failure_.message(), "; left alone for ",
                             absl::FormatDuration(kFarPause)));
  status.SetPayload(kPauseMark, absl::Cord());
  return status;
}

void FarBreaker::KeptSilent(const absl::Status& failure) {
  MutexLock lock(&mu_);
  failure_ = failure;
  breaker_.KeptSilent(SteadyNow());
}

bool IsPause(const absl::Status& status) {
  return status.GetPayload(kPauseMark).has_value();
}

}  // namespace kiln
