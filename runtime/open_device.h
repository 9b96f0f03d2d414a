#ifndef KILN_RUNTIME_OPEN_DEVICE_H_
#define KILN_RUNTIME_OPEN_DEVICE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device.h"
#include "runtime/opened_device.h"

namespace kiln {

struct DeviceConfig {
  DeviceKind kind = DeviceKind::kCpu;
  int ordinal = 0;
  // CPU threads that kernels may use; 0: one a core. Too many fight each other,
  // too few leave cores idle.
  int threads = 0;
  // Folders looked into for libcublasLt, libcudnn, libcuda and libdnnl before
  // the loader's own search: a CUDA toolkit's lib64, or the nvidia/cu13/lib and
  // nvidia/cudnn/lib of PyTorch's wheels.
  std::vector<std::string> library_folders;
};

// Opens the device. A library that is not on the machine does not fail this:
// it fails the load of an artifact that needs it, by name.
//
// NO_DEVICE  no driver, or no such ordinal
absl::StatusOr<OpenedDevice> OpenDevice(const DeviceConfig& config);

}  // namespace kiln

#endif  // KILN_RUNTIME_OPEN_DEVICE_H_
