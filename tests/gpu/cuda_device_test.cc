// The suite of every device, on a GPU. Skipped without one.
#include "tests/gpu/cuda_opener.h"
#include "tests/runtime/device_suite.h"

namespace kiln {
namespace {

std::shared_ptr<Device> Cuda() { return OpenCudaOrNull().device; }

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceConformance, testing::Values(&Cuda));
INSTANTIATE_TEST_SUITE_P(Cuda, CaptureConformance, testing::Values(&Cuda));

}  // namespace
}  // namespace kiln
