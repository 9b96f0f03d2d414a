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

// cuDNN need not take these: on CUDA image and result lie alike.
TEST_P(ConvolutionSuite, AResultThatLiesOtherwiseThanItsImage) {
  for (const int64_t window : {1, 3}) {
    for (const bool image_first : {true, false}) {
      const ConvolutionShape shape = {.image = {7, 6},
                                      .window = {window, window},
                                      .stride = {1},
                                      .padding = {window / 2},
                                      .dilation = {1},
                                      .batch = 3,
                                      .x_channels = 12,
                                      .y_channels = 20};
      Case c = Make(shape, DType::kFloat32, Format::kChannelsLast);
      Operand& other = image_first ? c.x : c.y;
      other = Tensor(DType::kFloat32, other.sizes(), Format::kContiguous);
      other.FillWithSmallIntegers(random_);
      SCOPED_TRACE(shape.Text());
      CheckForward(c, /*with_bias=*/false);
      CheckForward(c, /*with_bias=*/true, "relu");
      CheckBackward(c);
    }
  }
}

TEST_P(ConvolutionSuite, ImagesOfMoreRowsThanACoresCacheHolds) {
  Case c = Make({.image = {66, 64},
                 .window = {1, 1},
                 .stride = {1},
                 .padding = {0},
                 .dilation = {1},
                 .batch = 2,
                 .x_channels = 2,
                 .y_channels = 62},
                DType::kFloat32, Format::kChannelsLast);
  CheckForward(c, /*with_bias=*/true, "relu");
  Operand added = c.y;
  added.FillWithSmallIntegers(random_);
  CheckForward(c, /*with_bias=*/true, "relu", &added);
}

TEST_P(ConvolutionSuite, AWindowForEachChannel) {
  for (const int64_t channels : {16, 21}) {
    CheckAll({.image = {5, 6},
              .window = {3, 3},
              .stride = {2},
              .padding = {1},
              .dilation = {1},
              .x_channels = channels,
              .y_channels = channels,
              .groups = channels});
  }
}

// Images that do not come out even on two threads are cut (cut_convolution_test.cc says
// so): into slabs of the channels, of what is added and of the image's gradient too.
TEST_P(ConvolutionSuite, SlabsThatThreadsShareOut) {
  for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
    for (const int64_t groups : {1, 4}) {
      for (const int64_t batch : {1, 3}) {
        Case c = Make({.image = {6, 5},
                       .window = {3, 3},
                       .stride = {1},
                       .padding = {1},
                       .dilation = {1},
                       .batch = batch,
                       .x_channels = 64,
                       .y_channels = 60,
                       .groups = groups},
                      DType::kFloat32, format);
        Operand added = c.y;
        added.FillWithSmallIntegers(random_);
        SCOPED_TRACE(c.shape.Text());
        CheckForward(c, /*with_bias=*/true, "relu", &added);
        CheckForward(c, /*with_bias=*/false, "", &added);
        CheckBackward(c);
      }
    }
  }
}

// And into rows, with those beside them that their windows reach.
TEST_P(ConvolutionSuite, RowsThatThreadsShareOut) {
  const std::vector<std::vector<int64_t>> kImages = {{37}, {37, 5}, {17, 4, 5}};
  for (const std::vector<int64_t>& image : kImages) {
    for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
      for (const int64_t stride : {1, 2}) {
        for (const int64_t dilation : {1, 2}) {
          for (const int64_t groups : {1, 16}) {
            Case c = Make({.image = image,
                           .window = std::vector<int64_t>(image.size(), 3),
                           .stride = {stride},
                           .padding = {2},
                           .dilation = {dilation},
                           .batch = 3,
                           .x_channels = 16,
                           .y_channels = 16,
                           .groups = groups},
                          DType::kFloat32, format);
            SCOPED_TRACE(c.shape.Text());
            CheckForward(c, /*with_bias=*/true, "relu");
            Operand added = c.y;
            added.FillWithSmallIntegers(random_);
            CheckForward(c, /*with_bias=*/false, "relu", &added);
          }
        }
      }
    }
  }
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
