#ifndef KILN_TESTS_RUNTIME_PLAN_GRAPHS_LOGGED_DEVICE_H_
#define KILN_TESTS_RUNTIME_PLAN_GRAPHS_LOGGED_DEVICE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace kiln {

// A null device that writes down what is put on which stream:
//
//   "copy 4 on 1"     four elements, on the stream of address 1
//   "copies 16+4 on 1"  runs of 16 and 4 bytes in one
//   "fill 7 on 1"     with the bits 7
//   "graph on 1", "record on 1", "wait on 1", "synchronize 1"
//
// Streams of the device's own are "own". What is captured is not told. Copies of
// more than six dimensions are UNIMPLEMENTED, as on a GPU. One thread at a time.
class LoggedDevice : public Device {
 public:
  LoggedDevice();
  ~LoggedDevice() override;

  // What was told since the last time.
  std::vector<std::string> TakeLog();

  // Called once, before the next copy or the next capture.
  std::function<void()> before_copy;
  std::function<void()> before_capture;

  const DeviceTraits& traits() const override { return device_->traits(); }
  absl::StatusOr<CurrentDevice> MakeCurrent() const override {
    return device_->MakeCurrent();
  }
  Allocator& allocator() override { return device_->allocator(); }
  Allocator& segments() override { return device_->segments(); }
  absl::StatusOr<std::unique_ptr<OwnedStream>> MakeStream() override;
  absl::StatusOr<std::unique_ptr<Module>> LoadModule(
      absl::string_view image) override {
    return device_->LoadModule(image);
  }
  absl::StatusOr<std::unique_ptr<Marker>> MakeMarker() override;
  absl::Status Launch(const KernelLaunch& launch, Stream stream) override {
    return device_->Launch(launch, stream);
  }
  absl::Status Copy(const StridedView& from, const StridedView& to,
                    Stream stream) override;
  absl::Status CopyAll(absl::Span<const DenseCopy> copies,
                       Stream stream) override;
  absl::Status Fill(void* to, int64_t element_bytes, int64_t elements,
                    uint64_t bits, Stream stream) override;
  absl::Status Upload(const void* host, void* device, int64_t bytes,
                      Stream stream) override {
    return device_->Upload(host, device, bytes, stream);
  }
  absl::Status Download(const void* device, void* host, int64_t bytes,
                        Stream stream) override {
    return device_->Download(device, host, bytes, stream);
  }
  absl::Status Synchronize(Stream stream) override;
  absl::Status BeginCapture(Stream stream) override;
  absl::StatusOr<std::unique_ptr<CapturedGraph>> EndCapture(
      Stream stream) override;
  bool IsCaptured(Stream stream) const override {
    return device_->IsCaptured(stream);
  }

  // "`what` STREAM", unless the stream is captured.
  void Log(absl::string_view what, Stream stream);

 private:
  const std::unique_ptr<Device> device_;
  std::vector<Stream> own_;
  std::vector<std::string> log_;
};

}  // namespace kiln

#endif  // KILN_TESTS_RUNTIME_PLAN_GRAPHS_LOGGED_DEVICE_H_
