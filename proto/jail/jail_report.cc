#include "proto/jail/jail_report.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// "jail LEVEL PID LACKS", "no-jail WHY".
constexpr absl::string_view kJail = "jail";
constexpr absl::string_view kNone = "no-jail";

absl::Status NoReport() {
  return absl::DataLossError("worker: its first frame tells of no jail");
}

}  // namespace

std::string JailReportText(const JailReport& report) {
  if (!report.status.ok()) {
    return absl::StrCat(kNone, " ", report.status.message());
  }
  return absl::StrCat(kJail, " ", JailLevelName(report.level), " ",
                      report.worker, " ", report.lacks);
}

absl::StatusOr<JailReport> JailReportFrom(absl::string_view text) {
  JailReport report;
  const std::vector<std::string> words =
      absl::StrSplit(text, absl::MaxSplits(' ', 3));
  if (words[0] == kNone) {
    const absl::string_view why = text.substr(kNone.size());
    report.status =
        MakeError(ErrorReason::kPermission, why.empty() ? why : why.substr(1));
    return report;
  }
  if (words.size() != 4 || words[0] != kJail) return NoReport();
  const absl::StatusOr<JailLevel> level = JailLevelFromName(words[1]);
  if (!level.ok() || !absl::SimpleAtoi(words[2], &report.worker) ||
      report.worker <= 0) {
    return NoReport();
  }
  report.level = *level;
  report.lacks = words[3];
  return report;
}

}  // namespace kiln
