#ifndef KILN_RUNTIME_DEVICE_TARGET_H_
#define KILN_RUNTIME_DEVICE_TARGET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/device.h"

namespace kiln {

namespace wire {
class Target;
}  // namespace wire

// The target a client asks for when it compiles for this device: all that the
// device has. A null device is asked for as a CPU.
wire::Target TargetOf(const DeviceTraits& traits);

// Whether code made for `target` runs on the device.
//
//   cpu   the level and both extensions must not exceed the device's
//   cuda  "sm_XY" runs on compute capability X.Z with Z >= Y; "sm_XYa" on X.Y
//         alone (CUDA C++ Programming Guide, "Binary Compatibility" and
//         "Feature Set Compiler Targets")
//   null  everything
//
// ARTIFACT_INCOMPATIBLE naming both sides. Pure.
absl::Status CheckTarget(const wire::Target& target,
                         const DeviceTraits& traits);

// Whether the device's driver runs code that needs this CUDA version, as 13000.
// ARTIFACT_INCOMPATIBLE naming both. Pure.
absl::Status CheckDriver(uint32_t least_cuda_version,
                         const DeviceTraits& traits);

}  // namespace kiln

#endif  // KILN_RUNTIME_DEVICE_TARGET_H_
