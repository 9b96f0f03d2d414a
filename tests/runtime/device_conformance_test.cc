// The suite of every device on the null device, the CPU and a GPU.
#include "runtime/cpu_device.h"
#include "runtime/null_device.h"
#include "tests/gpu/cuda_opener.h"
#include "tests/runtime/device_suite.h"

namespace kiln {
namespace {

std::shared_ptr<Device> Null() { return MakeNullDevice(); }
std::shared_ptr<Device> Cpu() {
  return std::make_shared<CpuDevice>(CpuDeviceOptions{.threads = 2});
}
std::shared_ptr<Device> Cuda() { return OpenCudaOrNull().device; }

INSTANTIATE_TEST_SUITE_P(Null, DeviceConformance, testing::Values(&Null));
INSTANTIATE_TEST_SUITE_P(Null, CaptureConformance, testing::Values(&Null));
INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance, testing::Values(&Cpu));
INSTANTIATE_TEST_SUITE_P(Cpu, CaptureConformance, testing::Values(&Cpu));
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceConformance, testing::Values(&Cuda));
INSTANTIATE_TEST_SUITE_P(Cuda, CaptureConformance, testing::Values(&Cuda));

}  // namespace
}  // namespace kiln
