#include "runtime/cpu_device.h"
#include "runtime/extern_kernels/cpu_externs.h"
#include "runtime/extern_kernels/plain_kernels.h"
#include "tests/runtime/extern_kernels/convolution_suite.h"

namespace kiln {
namespace {

OpenedDevice OpenCpu() {
  auto device = std::make_shared<CpuDevice>(CpuDeviceOptions{.threads = 2});
  return {device, MakeCpuExterns(device, {})};
}

// Our own loops alone, as on a machine without oneDNN.
class PlainOnly final : public ExternLibrary {
 public:
  explicit PlainOnly(std::shared_ptr<CpuDevice> device)
      : device_(std::move(device)) {}
  absl::StatusOr<std::shared_ptr<const PreparedCall>> Prepare(
      const ExternProblem& problem) override {
    return PreparePlainConvolution(std::get<ConvolutionProblem>(problem),
                                   device_->threads());
  }

 private:
  const std::shared_ptr<CpuDevice> device_;
};

OpenedDevice OpenPlain() {
  auto device = std::make_shared<CpuDevice>(CpuDeviceOptions{.threads = 3});
  return {device, std::make_shared<PlainOnly>(device)};
}

INSTANTIATE_TEST_SUITE_P(
    Cpu, ConvolutionSuite,
    testing::Values(ConvolutionLibraryCase{"cpu",
                                           OpenCpu,
                                           {DType::kFloat32, DType::kFloat64,
                                            DType::kFloat16, DType::kBFloat16}},
                    ConvolutionLibraryCase{"plain",
                                           OpenPlain,
                                           {DType::kFloat32, DType::kFloat64}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kiln
