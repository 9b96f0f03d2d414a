#include "runtime/null_device.h"

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
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
  absl::StatusOr<KernelHandle> FindKernel(const std::string&) const override {
    static char some_kernel;
    return &some_kernel;
  }
};

class NullMarker final : public Marker {
 public:
  absl::Status Record(Stream) override { return absl::OkStatus(); }
  absl::Status Wait(Stream) override { return absl::OkStatus(); }
};

class NullDevice final : public Device {
 public:
  NullDevice() { traits_.name = "null"; }

  const DeviceTraits& traits() const override { return traits_; }
  Allocator& allocator() override { return allocator_; }
  absl::StatusOr<std::unique_ptr<Module>> LoadModule(
      absl::string_view) override {
    return std::make_unique<NullModule>();
  }
  absl::StatusOr<std::unique_ptr<Marker>> MakeMarker() override {
    return std::make_unique<NullMarker>();
  }
  absl::Status Launch(const KernelLaunch&, Stream) override {
    return absl::OkStatus();
  }
  absl::Status Copy(const StridedView& from, const StridedView& to,
                    Stream) override {
    CopyStrided(from, to);
    return absl::OkStatus();
  }
  absl::Status Fill(void* to, int64_t element_bytes, int64_t elements,
                    uint64_t bits, Stream) override {
    FillElements(to, element_bytes, elements, bits);
    return absl::OkStatus();
  }
  absl::Status Upload(const void* host, void* device, int64_t bytes,
                      Stream) override {
    std::memcpy(device, host, bytes);
    return absl::OkStatus();
  }
  absl::Status Download(const void* device, void* host, int64_t bytes,
                        Stream) override {
    std::memcpy(host, device, bytes);
    return absl::OkStatus();
  }
  absl::Status Synchronize(Stream) override { return absl::OkStatus(); }

 private:
  DeviceTraits traits_;
  ZeroedAllocator allocator_;
};

}  // namespace

std::unique_ptr<Device> MakeNullDevice() {
  return std::make_unique<NullDevice>();
}

}  // namespace kiln
