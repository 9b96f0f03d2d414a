#include "cache/far/far_pause.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr absl::string_view kPauseMark = "kiln/far-pause";

}  // namespace

absl::Status LeftAlone(const absl::Status& failure) {
  absl::Status status =
      MakeError(ErrorReason::kStorage,
                absl::StrCat(failure.message(), "; left alone for ",
                             absl::FormatDuration(kFarPause)));
  status.SetPayload(kPauseMark, absl::Cord());
  return status;
}

bool IsPause(const absl::Status& status) {
  return status.GetPayload(kPauseMark).has_value();
}

}  // namespace kiln
