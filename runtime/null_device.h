#ifndef KILN_RUNTIME_NULL_DEVICE_H_
#define KILN_RUNTIME_NULL_DEVICE_H_

#include <memory>

#include "runtime/device.h"

namespace kiln {

// A device that takes every artifact and runs no kernel. Its memory is the
// host's, zero when fresh; copies and fills happen, of a captured stream when
// the graph is launched. For tests of all that stands around kernels, and to
// start a new backend from.
std::unique_ptr<Device> MakeNullDevice();

}  // namespace kiln

#endif  // KILN_RUNTIME_NULL_DEVICE_H_
