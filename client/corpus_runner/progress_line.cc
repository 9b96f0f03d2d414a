#include "client/corpus_runner/progress_line.h"

#include "absl/strings/str_format.h"
#include "proto/base/steady_time.h"

namespace kiln {
namespace {

// Lines of a log closer than this say nothing more to a person.
constexpr absl::Duration kLeastPause = absl::Milliseconds(500);

constexpr char kClearLine[] = "\r\033[K";

}  // namespace

ProgressLine::~ProgressLine() {
  if (place_ == Place::kTerminal) std::fputs(kClearLine, file_);
}

void ProgressLine::Show(const std::string& name, const std::string& step,
                        SteadyTime now) {
  MutexLock lock(&mu_);
  const auto [began, first] = began_.emplace(name, now);
  if (place_ == Place::kLog && !first && Between(last_, now) < kLeastPause)
    return;
  last_ = now;
  const std::string text =
      absl::StrFormat("%s: %s (%.1f s)", name, step,
                      absl::ToDoubleSeconds(Between(began->second, now)));
  if (place_ == Place::kTerminal) {
    absl::FPrintF(file_, "%s  %s", kClearLine, text);
  } else {
    absl::FPrintF(file_, "  %s\n", text);
  }
  std::fflush(file_);
}

}  // namespace kiln
