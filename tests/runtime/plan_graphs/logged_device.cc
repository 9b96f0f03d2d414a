#include "tests/runtime/plan_graphs/logged_device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status.h"
#include "runtime/null_device.h"

namespace kiln {
namespace {

constexpr size_t kMostDims = 6;

void CallOnce(std::function<void()>& hook) {
  if (const auto call = std::exchange(hook, nullptr)) call();
}

class LoggedMarker final : public Marker {
 public:
  LoggedMarker(LoggedDevice& device, std::unique_ptr<Marker> marker)
      : device_(device), marker_(std::move(marker)) {}
  absl::Status Record(Stream stream) override {
    device_.Log("record on", stream);
    return marker_->Record(stream);
  }
  absl::Status Wait(Stream stream) override {
    device_.Log("wait on", stream);
    return marker_->Wait(stream);
  }

 private:
  LoggedDevice& device_;
  const std::unique_ptr<Marker> marker_;
};

class LoggedGraph final : public CapturedGraph {
 public:
  LoggedGraph(LoggedDevice& device, std::unique_ptr<CapturedGraph> graph)
      : device_(device), graph_(std::move(graph)) {}
  absl::Status Launch(Stream stream) override {
    device_.Log("graph on", stream);
    return graph_->Launch(stream);
  }
  int64_t size() const override { return graph_->size(); }

 private:
  LoggedDevice& device_;
  const std::unique_ptr<CapturedGraph> graph_;
};

}  // namespace

LoggedDevice::LoggedDevice() : device_(MakeNullDevice()) {}
LoggedDevice::~LoggedDevice() = default;

std::vector<std::string> LoggedDevice::TakeLog() {
  return std::exchange(log_, {});
}

void LoggedDevice::Log(absl::string_view what, Stream stream) {
  if (device_->IsCaptured(stream)) return;
  const bool is_own = std::find(own_.begin(), own_.end(), stream) != own_.end();
  log_.push_back(
      is_own ? absl::StrCat(what, " own")
             : absl::StrCat(what, " ", reinterpret_cast<uintptr_t>(stream)));
}

absl::StatusOr<std::unique_ptr<OwnedStream>> LoggedDevice::MakeStream() {
  ASSIGN_OR_RETURN(std::unique_ptr<OwnedStream> stream, device_->MakeStream());
  own_.push_back(stream->get());
  return stream;
}

absl::StatusOr<std::unique_ptr<Marker>> LoggedDevice::MakeMarker() {
  ASSIGN_OR_RETURN(std::unique_ptr<Marker> marker, device_->MakeMarker());
  return std::make_unique<LoggedMarker>(*this, std::move(marker));
}

absl::Status LoggedDevice::Copy(const StridedView& from, const StridedView& to,
                                Stream stream) {
  CallOnce(before_copy);
  if (from.sizes.size() > kMostDims) {
    return absl::UnimplementedError(
        absl::StrCat("copy of ", from.sizes.size(), " dimensions"));
  }
  int64_t elements = 1;
  for (const int64_t size : from.sizes) elements *= size;
  Log(absl::StrCat("copy ", elements, " on"), stream);
  return device_->Copy(from, to, stream);
}

absl::Status LoggedDevice::CopyAll(absl::Span<const DenseCopy> copies,
                                   Stream stream) {
  CallOnce(before_copy);
  const auto bytes = [](std::string* out, const DenseCopy& copy) {
    absl::StrAppend(out, copy.bytes);
  };
  Log(absl::StrCat("copies ", absl::StrJoin(copies, "+", bytes), " on"),
      stream);
  return device_->CopyAll(copies, stream);
}

absl::Status LoggedDevice::Fill(void* to, int64_t element_bytes,
                                int64_t elements, uint64_t bits,
                                Stream stream) {
  Log(absl::StrCat("fill ", bits, " on"), stream);
  return device_->Fill(to, element_bytes, elements, bits, stream);
}

absl::Status LoggedDevice::Synchronize(Stream stream) {
  Log("synchronize", stream);
  return device_->Synchronize(stream);
}

absl::Status LoggedDevice::BeginCapture(Stream stream) {
  CallOnce(before_capture);
  return device_->BeginCapture(stream);
}

absl::StatusOr<std::unique_ptr<CapturedGraph>> LoggedDevice::EndCapture(
    Stream stream) {
  ASSIGN_OR_RETURN(std::unique_ptr<CapturedGraph> graph,
                   device_->EndCapture(stream));
  return std::make_unique<LoggedGraph>(*this, std::move(graph));
}

}  // namespace kiln
