#include "runtime/host_captures.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class HostGraph final : public CapturedGraph {
 public:
  explicit HostGraph(std::vector<HostCaptures::Work> work)
      : work_(std::move(work)) {}

  absl::Status Launch(Stream) override {
    for (const HostCaptures::Work& work : work_) RETURN_IF_ERROR(work());
    return absl::OkStatus();
  }
  int64_t size() const override { return static_cast<int64_t>(work_.size()); }

 private:
  const std::vector<HostCaptures::Work> work_;
};

}  // namespace

absl::Status HostCaptures::Begin(Stream stream) {
  if (stream == nullptr) {
    return absl::FailedPreconditionError("capture: the null stream has none");
  }
  MutexLock lock(&mu_);
  if (Find(stream) != nullptr) {
    return absl::FailedPreconditionError(
        "capture: the stream is in one already");
  }
  Capture& capture = captures_[stream];
  capture.number = ++begun_;
  capture.clocks[stream];
  ++open_;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CapturedGraph>> HostCaptures::End(
    Stream stream) {
  MutexLock lock(&mu_);
  const auto at = captures_.find(stream);
  if (at == captures_.end()) {
    return absl::FailedPreconditionError("capture: none began on this stream");
  }
  Capture capture = std::move(at->second);
  captures_.erase(at);
  --open_;
  if (!capture.broken_by.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("capture: broken by ", capture.broken_by));
  }
  for (auto& [other, clock] : capture.clocks) {
    if (capture.clocks[stream][other] < clock[other]) {
      return absl::FailedPreconditionError(
          "capture: a stream that took part was not waited for at the end");
    }
  }
  return std::make_unique<HostGraph>(std::move(capture.work));
}

bool HostCaptures::Has(Stream stream) const {
  if (open_ == 0) return false;
  MutexLock lock(&mu_);
  return Find(stream) != nullptr;
}

absl::Status HostCaptures::Do(Stream stream, const Work& work) {
  if (open_ != 0) {
    MutexLock lock(&mu_);
    if (Capture* const capture = FindCapture(stream)) {
      ++capture->clocks[stream][stream];
      capture->work.push_back(work);
      return absl::OkStatus();
    }
  }
  return work();
}

absl::Status HostCaptures::AllowWait(Stream stream, absl::string_view call) {
  if (open_ == 0) return absl::OkStatus();
  MutexLock lock(&mu_);
  Capture* const capture = FindCapture(stream);
  if (capture == nullptr) return absl::OkStatus();
  capture->broken_by = std::string(call);
  return absl::FailedPreconditionError(
      absl::StrCat(call, ": waits, which a captured stream cannot"));
}

HostCaptures::Point HostCaptures::PointOf(Stream stream) const {
  if (open_ == 0) return {};
  MutexLock lock(&mu_);
  const auto* const found = Find(stream);
  if (found == nullptr) return {};
  return {found->first, found->second.number, found->second.clocks.at(stream)};
}

void HostCaptures::Wait(const Point& point, Stream stream) {
  if (point.origin == nullptr) return;
  MutexLock lock(&mu_);
  const auto at = captures_.find(point.origin);
  if (at == captures_.end() || at->second.number != point.capture) return;
  std::map<Stream, int64_t>& clock = at->second.clocks[stream];
  for (const auto& [other, done] : point.done) {
    clock[other] = std::max(clock[other], done);
  }
}

const std::pair<const Stream, HostCaptures::Capture>* HostCaptures::Find(
    Stream stream) const {
  for (const auto& capture : captures_) {
    if (capture.second.clocks.contains(stream)) return &capture;
  }
  return nullptr;
}

HostCaptures::Capture* HostCaptures::FindCapture(Stream stream) {
  const auto* const found = Find(stream);
  return found == nullptr ? nullptr : &captures_.at(found->first);
}

}  // namespace kiln
