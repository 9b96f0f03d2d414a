#include "runtime/null_device.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/host_captures.h"
#include "runtime/host_memory.h"

namespace kiln {
namespace {

class ZeroedAllocator final : public Allocator {
 public:
  absl::StatusOr<void*> Allocate(int64_t bytes, Stream) override {
    const int64_t rounded = HostAllocator::RoundedBytes(bytes);
    void* const memory = std::aligned_alloc(HostAllocator::kAlignment, rounded);
    if (memory == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("null device memory: no ", rounded, " bytes"));
    }
    std::memset(memory, 0, rounded);
    return memory;
  }
  void Free(void* memory, int64_t, Stream) override { std::free(memory); }
};

class NullModule final : public Module {
 public:
  absl::StatusOr<KernelHandle> FindKernel(const std::string&,
                                          uint32_t) const override {
    static char some_kernel;
    return &some_kernel;
  }
};

class NullStream final : public OwnedStream {
 public:
  Stream get() const override { return const_cast<NullStream*>(this); }
};

class NullMarker final : public Marker {
 public:
  explicit NullMarker(HostCaptures& captures) : captures_(captures) {}
  absl::Status Record(Stream stream) override {
    point_ = captures_.PointOf(stream);
    return absl::OkStatus();
  }
  absl::Status Wait(Stream stream) override {
    captures_.Wait(point_, stream);
    return absl::OkStatus();
  }

 private:
  HostCaptures& captures_;
  HostCaptures::Point point_;
};

// A view that owns its numbers.
struct KeptView {
  explicit KeptView(const StridedView& from)
      : sizes(from.sizes.begin(), from.sizes.end()),
        strides(from.strides.begin(), from.strides.end()),
        data(from.data),
        element_bytes(from.element_bytes) {}
  StridedView view() const { return {data, element_bytes, sizes, strides}; }

  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  void* data;
  int64_t element_bytes;
};

class NullDevice final : public Device {
 public:
  NullDevice() { traits_.name = "null"; }

  const DeviceTraits& traits() const override { return traits_; }
  absl::StatusOr<CurrentDevice> MakeCurrent() const override {
    return CurrentDevice();
  }
  Allocator& allocator() override { return allocator_; }
  Allocator& segments() override { return allocator_; }
  absl::StatusOr<std::unique_ptr<OwnedStream>> MakeStream() override {
    return std::make_unique<NullStream>();
  }
  absl::StatusOr<std::unique_ptr<Module>> LoadModule(
      absl::string_view) override {
    return std::make_unique<NullModule>();
  }
  absl::StatusOr<std::unique_ptr<Marker>> MakeMarker() override {
    return std::make_unique<NullMarker>(captures_);
  }
  absl::Status Launch(const KernelLaunch&, Stream stream) override {
    return captures_.Do(stream, [] { return absl::OkStatus(); });
  }
  absl::Status Copy(const StridedView& from, const StridedView& to,
                    Stream stream) override {
    const KeptView source(from);
    const KeptView target(to);
    return captures_.Do(stream, [source, target] {
      CopyStrided(source.view(), target.view());
      return absl::OkStatus();
    });
  }
  absl::Status CopyAll(absl::Span<const DenseCopy> copies,
                       Stream stream) override {
    if (!captures_.Has(stream)) {
      CopyDense(copies);
      return absl::OkStatus();
    }
    const std::vector<DenseCopy> kept(copies.begin(), copies.end());
    return captures_.Do(stream, [kept] {
      CopyDense(kept);
      return absl::OkStatus();
    });
  }
  absl::Status Fill(void* to, int64_t element_bytes, int64_t elements,
                    uint64_t bits, Stream stream) override {
    return captures_.Do(stream, [=] {
      FillElements(to, element_bytes, elements, bits);
      return absl::OkStatus();
    });
  }
  absl::Status Upload(const void* host, void* device, int64_t bytes,
                      Stream stream) override {
    RETURN_IF_ERROR(captures_.AllowWait(stream, "upload"));
    std::memcpy(device, host, bytes);
    return absl::OkStatus();
  }
  absl::Status Download(const void* device, void* host, int64_t bytes,
                        Stream stream) override {
    RETURN_IF_ERROR(captures_.AllowWait(stream, "download"));
    std::memcpy(host, device, bytes);
    return absl::OkStatus();
  }
  absl::Status Synchronize(Stream stream) override {
    return captures_.AllowWait(stream, "synchronize");
  }
  absl::Status BeginCapture(Stream stream) override {
    return captures_.Begin(stream);
  }
  absl::StatusOr<std::unique_ptr<CapturedGraph>> EndCapture(
      Stream stream) override {
    return captures_.End(stream);
  }
  bool IsCaptured(Stream stream) const override {
    return captures_.Has(stream);
  }

 private:
  DeviceTraits traits_;
  ZeroedAllocator allocator_;
  HostCaptures captures_;
};

}  // namespace

std::unique_ptr<Device> MakeNullDevice() {
  return std::make_unique<NullDevice>();
}

}  // namespace kiln
