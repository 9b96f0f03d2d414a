#include "runtime/open_device.h"

#include <utility>

#include "proto/base/status.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda_device.h"
#include "runtime/extern_kernels/cpu_externs.h"
#include "runtime/extern_kernels/cuda_externs.h"
#include "runtime/extern_kernels/null_externs.h"
#include "runtime/null_device.h"

namespace kiln {

absl::StatusOr<OpenedDevice> OpenDevice(const DeviceConfig& config) {
  OpenedDevice opened;
  switch (config.kind) {
    case DeviceKind::kNull:
      opened.device = MakeNullDevice();
      opened.externs = MakeNullExterns();
      return opened;
    case DeviceKind::kCpu: {
      auto cpu = std::make_shared<CpuDevice>(
          CpuDeviceOptions{.threads = config.threads});
      opened.device = cpu;
      opened.externs = MakeCpuExterns(std::move(cpu), config.library_folders);
      return opened;
    }
    case DeviceKind::kCuda: {
      ASSIGN_OR_RETURN(
          std::shared_ptr<CudaDevice> cuda,
          CudaDevice::Open(config.ordinal, config.library_folders));
      opened.device = cuda;
      opened.externs = MakeCudaExterns(std::move(cuda), config.library_folders);
      return opened;
    }
  }
  return absl::InvalidArgumentError("a device of no kind");
}

}  // namespace kiln
