#include "runtime/cpu_device.h"
#include "runtime/extern_kernels/cpu_externs.h"
#include "runtime/extern_kernels/plain_kernels.h"
#include "tests/runtime/extern_kernels/matmul_suite.h"

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
    return PreparePlainMatmul(std::get<MatmulProblem>(problem),
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
    Cpu, MatmulSuite,
    testing::Values(MatmulLibraryCase{"cpu",
                                      OpenCpu,
                                      {DType::kFloat32, DType::kFloat64,
                                       DType::kFloat16, DType::kBFloat16,
                                       DType::kInt32, DType::kInt64}},
                    MatmulLibraryCase{"plain",
                                      OpenPlain,
                                      {DType::kFloat32, DType::kFloat64,
                                       DType::kInt32, DType::kInt64}}),
    [](const auto& info) { return std::string(info.param.name); });

// Larger than a tile of our own loops each way, and than what one pass sums.
TEST(PlainMatmul, ManyTilesGiveTheSumsOfProducts) {
  const OpenedDevice opened = OpenPlain();
  std::mt19937 random(11);
  for (const DType dtype : {DType::kFloat64, DType::kInt32}) {
    for (const std::vector<int>& order :
         {std::vector<int>{0, 1}, std::vector<int>{1, 0}}) {
      auto a = Operand::Dense(dtype, {130, 211}, order);
      auto b = Operand::Dense(dtype, {211, 413}, order);
      auto out = Operand::Dense(dtype, {130, 413}, {0, 1});
      a.FillWithSmallIntegers(random);
      b.FillWithSmallIntegers(random);
      const absl::Status status = RunCall({.name = "mm"}, {&a, &b}, {&out},
                                          *opened.device, *opened.externs);
      ASSERT_TRUE(status.ok()) << status;
      for (int64_t i = 0; i < 130; i += 3) {
        for (int64_t j = i % 5; j < 413; j += 5) {
          double due = 0;
          for (int64_t k = 0; k < 211; ++k) due += a.At({i, k}) * b.At({k, j});
          ASSERT_EQ(out.At({i, j}), due)
              << ShortName(dtype) << " row " << i << ", column " << j;
        }
      }
    }
  }
}

// The answer is right, and somebody can see that it was slow.
TEST(CpuExterns, WithoutOneDnnOurLoopsAreCounted) {
  auto device = std::make_shared<CpuDevice>(CpuDeviceOptions{.threads = 2});
  const auto without = MakeCpuExternsWith(
      device, MakeError(ErrorReason::kNoDevice, "libdnnl.so.2: not here"));
  EXPECT_EQ(without->fallbacks(), 0);
  const MatmulProblem f32 = {
      .m = 2, .n = 3, .k = 4, .a = {0, 4, 1}, .b = {0, 3, 1}, .out = {0, 3, 1}};
  const auto call = without->Prepare(f32);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ((*call)->library(), "own loops");
  EXPECT_EQ(without->fallbacks(), 1);
  // No library is meant for integers.
  MatmulProblem i64 = f32;
  i64.dtype = DType::kInt64;
  ASSERT_TRUE(without->Prepare(i64).ok());
  EXPECT_EQ(without->fallbacks(), 1);

  const auto with = MakeCpuExterns(device, {});
  ASSERT_TRUE(with->Prepare(f32).ok());
  EXPECT_EQ((*with->Prepare(f32))->library(), "oneDNN");
  EXPECT_EQ(with->fallbacks(), 0);
}

// Elsewhere it is widened, and f32 is oneDNN's.
TEST(CpuExterns, Bf16GoesToOneDnnWhereTheProcessorMultipliesIt) {
  auto device = std::make_shared<CpuDevice>(CpuDeviceOptions{.threads = 2});
  const auto externs = MakeCpuExterns(device, {});
  MatmulProblem problem = {.dtype = DType::kBFloat16,
                           .m = 64,
                           .n = 32,
                           .k = 48,
                           .a = {0, 48, 1},
                           .b = {0, 32, 1},
                           .out = {0, 32, 1}};
  const auto call = externs->Prepare(problem);
  ASSERT_TRUE(call.ok()) << call.status();
  const bool has_it = __builtin_cpu_supports("avx512bf16") != 0;
  EXPECT_EQ((*call)->library(), has_it ? "oneDNN bf16" : "oneDNN");
  problem.dtype = DType::kFloat16;
  EXPECT_EQ((*externs->Prepare(problem))->library(), "oneDNN");
}

TEST(MatmulCall, ACallThatBreaksTheTableIsRefused) {
  const OpenedDevice cpu = OpenCpu();
  auto a = Operand::Dense(DType::kFloat32, {2, 3}, {0, 1});
  auto b = Operand::Dense(DType::kFloat32, {4, 2}, {0, 1});
  auto narrow = Operand::Dense(DType::kInt8, {3, 2}, {0, 1});
  auto narrow_a = Operand::Dense(DType::kInt8, {2, 3}, {0, 1});
  auto out = Operand::Dense(DType::kFloat32, {2, 2}, {0, 1});
  const auto reason = [&](ExternCall call, std::vector<Operand*> inputs) {
    return ReasonOf(RunCall(call, inputs, {&out}, *cpu.device, *cpu.externs));
  };
  EXPECT_EQ(reason({.name = "mm"}, {&a, &b}), ErrorReason::kArtifactCorrupt);
  EXPECT_EQ(reason({.name = "mm"}, {&a}), ErrorReason::kArtifactCorrupt);
  EXPECT_EQ(reason({.name = "mm"}, {&narrow_a, &narrow}),
            ErrorReason::kUnsupportedOp);
  EXPECT_EQ(reason({.name = "outer"}, {&a, &b}), ErrorReason::kUnsupportedOp);
  auto good_b = Operand::Dense(DType::kFloat32, {3, 2}, {0, 1});
  const ExternAttribute swish[] = {{"activation", absl::string_view("swish")}};
  EXPECT_EQ(reason({.name = "mm", .attributes = swish}, {&a, &good_b}),
            ErrorReason::kUnsupportedOp);
  const ExternAttribute unknown[] = {{"tf32", int64_t{1}}};
  EXPECT_EQ(reason({.name = "mm", .attributes = unknown}, {&a, &good_b}),
            ErrorReason::kUnsupportedOp);
}

}  // namespace
}  // namespace kiln
