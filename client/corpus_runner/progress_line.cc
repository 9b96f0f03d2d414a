#include "client/corpus_runner/progress_line.h"

#include "absl/strings/str_format.h"

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
                        absl::Time now) {
  MutexLock lock(&mu_);
  const auto [began, first] = began_.emplace(name, now);
  if (place_ == Place::kLog && !first && now - last_ < kLeastPause) return;
  last_ = now;
  const std::string text =
      absl::StrFormat("%s: %s (%.1f s)", name, step,
                      absl::ToDoubleSeconds(now - began->second));
  if (place_ == Place::kTerminal) {
    absl::FPrintF(file_, "%s  %s", kClearLine, text);
  } else {
    absl::FPrintF(file_, "  %s\n", text);
  }
  std::fflush(file_);
}

}  // namespace kiln
