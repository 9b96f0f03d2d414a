#ifndef KILN_RUNTIME_OPENED_DEVICE_H_
#define KILN_RUNTIME_OPENED_DEVICE_H_

#include <memory>

#include "runtime/device.h"
#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// A device with the libraries that serve its extern calls. A value: copies
// share both.
struct OpenedDevice {
  std::shared_ptr<Device> device;
  std::shared_ptr<ExternLibrary> externs;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_OPENED_DEVICE_H_
