// Names of kernels and their grouping into units.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/kernel_names.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/schedule/kernel_labels.h"
#include "tests/support/nest_case.h"

namespace kiln {
namespace {

Target TargetOf(absl::string_view name) {
  const auto target = TargetFromName(name);
  EXPECT_TRUE(target.ok());
  return *target;
}

// x * factor over `n` elements.
NestCase Scale(int64_t n, double factor) {
  NestCase c;
  const uint32_t i = c.Axis(n);
  const BufferId x = c.In(DType::kFloat32, {n}),
                 z = c.Out(DType::kFloat32, {n});
  c.Store(z, {SymExpr::Axis(i)},
          c.Op(ScalarOp::kMul, {c.Load(x, {SymExpr::Axis(i)}),
                                c.Constant(DType::kFloat32, factor)}));
  c.kernel.nest.origins = {"mul"};
  return c;
}

KernelSource Write(const NestCase& c, absl::string_view target) {
  const auto source = c.Source(TargetOf(target));
  EXPECT_TRUE(source.ok()) << source.status();
  return *source;
}

// What a step is called, where the client has these words of its nodes.
std::string StemOf(PlannedStep step, std::vector<std::string> words = {}) {
  KernelPlan plan;
  plan.steps.push_back(std::move(step));
  plan.client_words = std::move(words);
  LabelKernels(plan);
  const std::string& label = LabelOf(plan.steps[0]);
  EXPECT_EQ(label, absl::StrCat(StemOfLabel(label), "_0"));
  return std::string(StemOfLabel(label));
}

TEST(KernelNames, SayWhatAKernelDoesByTheAlphabetAndAreShort) {
  NestCase c = Scale(8, 2);
  for (int i = 20; i-- > 0;)
    c.kernel.nest.origins.push_back(absl::StrCat("op", i));
  c.kernel.nest.origins.push_back("_to_copy");
  c.kernel.nest.origins.push_back("op0");
  c.kernel.nest.origins.push_back("_foreach_add");
  EXPECT_EQ(
      StemOf(c.kernel),
      "kiln_poi_fused__to_copy_mul_op0_op1_op10_op11_op12_op13_op14_op15");
  const uint32_t r = c.Axis(4, true);
  (void)r;
  EXPECT_TRUE(absl::StartsWith(StemOf(c.kernel), "kiln_red_"));
  c.kernel.variant = CudaRows{.held = 2};
  EXPECT_TRUE(absl::StartsWith(StemOf(c.kernel), "kiln_per_"));
  c.kernel.variant = CudaScans{.parts = 2};
  EXPECT_TRUE(absl::StartsWith(StemOf(c.kernel), "kiln_spl_"));
  c.kernel.nest.origins = {"mm"};
  EXPECT_EQ(StemOf(c.kernel), "kiln_tem_fused_mm");
}

TEST(KernelNames, OperatorsOnListsOfTensorsNameNone) {
  CombinedKernel all;
  all.parts = {Scale(8, 2).kernel, Scale(8, 2).kernel};
  all.parts[0].nest.origins = {"_foreach_add"};
  all.parts[1].nest.origins = {"_foreach_add"};
  EXPECT_EQ(StemOf(all), "kiln_for_fused");
}

TEST(KernelNames, AClientsWordsOfItsNodesStandInPlaceOfOperators) {
  NestCase c = Scale(8, 2);
  c.kernel.nest.client_nodes = {1, 2, 4};
  const std::vector<std::string> words = {"of_another", "<lambda>", "",
                                          "of_another", "linear"};
  EXPECT_EQ(StemOf(c.kernel, words), "kiln_poi_fused__lambda__linear");
  EXPECT_EQ(StemOf(c.kernel, {"", "", "", "", ""}), "kiln_poi_fused");
  // The kind is that of the operators all the same.
  const uint32_t r = c.Axis(4, true);
  (void)r;
  c.kernel.nest.origins = {"mm"};
  EXPECT_EQ(StemOf(c.kernel, words), "kiln_tem_fused__lambda__linear");
  CombinedKernel all;
  all.parts = {Scale(8, 2).kernel, Scale(8, 2).kernel};
  all.parts[0].nest.client_nodes = {0};
  all.parts[1].nest.client_nodes = {4};
  EXPECT_EQ(StemOf(all, words), "kiln_for_fused_linear_of_another");
  FlashKernel flash;
  flash.attention.client_nodes = {4};
  EXPECT_EQ(StemOf(flash, words), "kiln_tem_fused_linear");
}

TEST(KernelNames, EqualKernelsOfDifferentBuffersHaveOneSymbol) {
  NestCase a = Scale(100, 2);
  NestCase b = Scale(100, 2);
  // The same kernel on buffers of other numbers and names.
  b.buffers.insert(b.buffers.begin(), b.buffers[0]);
  for (ScalarNode& node : b.kernel.nest.body) ++node.buffer;
  for (Store& store : b.kernel.nest.stores) ++store.buffer;
  for (absl::string_view target : {"sm_90", "x86-64-v3"}) {
    EXPECT_EQ(Write(a, target).symbol, Write(b, target).symbol);
    EXPECT_EQ(Write(a, target).text, Write(b, target).text);
    EXPECT_NE(Write(a, target).symbol, Write(Scale(101, 2), target).symbol);
  }
}

TEST(GroupIntoUnits, MostUnitsSurviveAChangedList) {
  std::vector<KernelSource> kernels;
  for (int i = 0; i < 60; ++i)
    kernels.push_back(Write(Scale(64, 1.0 + i), "sm_90"));
  const Target target = TargetOf("sm_90");
  const auto before = GroupIntoUnits(kernels, target);
  EXPECT_GT(before.size(), 4u);
  size_t symbols = 0;
  for (const UnitSource& unit : before) symbols += unit.symbols.size();
  EXPECT_EQ(symbols, 60u);

  // Another order and a kernel twice change nothing.
  std::vector<KernelSource> shuffled(kernels.rbegin(), kernels.rend());
  shuffled.push_back(kernels[7]);
  const auto again = GroupIntoUnits(shuffled, target);
  ASSERT_EQ(again.size(), before.size());
  for (size_t u = 0; u < before.size(); ++u)
    EXPECT_EQ(again[u].source, before[u].source);

  // One kernel more touches its own unit, and at most splits it.
  kernels.push_back(Write(Scale(64, 1000), "sm_90"));
  const auto after = GroupIntoUnits(kernels, target);
  std::set<std::string> known;
  for (const UnitSource& unit : before) known.insert(unit.source);
  size_t changed = 0;
  for (const UnitSource& unit : after)
    changed += known.count(unit.source) == 0 ? 1 : 0;
  EXPECT_LE(changed, 2u);
}

TEST(GroupIntoUnits, ALongCudaKernelHasAUnitOfItsOwnBeforeTheOthers) {
  for (const char* name : {"sm_90", "x86-64-v3"}) {
    std::vector<KernelSource> kernels;
    for (int i = 0; i < 20; ++i)
      kernels.push_back(Write(Scale(64, 1.0 + i), name));
    KernelSource& longest = kernels[3];
    longest.text.append(5000, ' ');
    const auto units = GroupIntoUnits(kernels, TargetOf(name));
    const std::vector<std::string> alone = {longest.symbol};
    const bool cuda = absl::string_view(name) == "sm_90";
    EXPECT_EQ(units[0].symbols == alone, cuda) << name;
    size_t symbols = 0;
    for (const UnitSource& unit : units) symbols += unit.symbols.size();
    EXPECT_EQ(symbols, 20u) << name;
  }
}

TEST(WriteKernel, ACudaKernelWaitsFirstForTheWorkBeforeItWhereItsTargetLetsIt) {
  const NestCase c = Scale(64, 2);
  const KernelSource waits = Write(c, "sm_90");
  EXPECT_TRUE(waits.waits_for_work_before);
  EXPECT_TRUE(
      absl::StrContains(waits.text, ") {\n  k_wait_for_work_before();\n"))
      << waits.text;
  const KernelSource does_not = Write(c, "sm_89");
  EXPECT_FALSE(does_not.waits_for_work_before);
  EXPECT_FALSE(absl::StrContains(does_not.text, "k_wait_for_work_before"));
}

TEST(WriteKernel, WideAccessesNeedAlignmentAndDivisibility) {
  NestCase c = Scale(1024, 2);
  c.kernel.variant = CudaPoints{.vector = 4};
  EXPECT_TRUE(absl::StrContains(Write(c, "sm_90").text, "k_load<"));
  c.buffers[0].alignment_bytes = 4;
  EXPECT_FALSE(absl::StrContains(Write(c, "sm_90").text, "k_load<"));
  EXPECT_TRUE(absl::StrContains(Write(c, "sm_90").text, "k_store("));
  c.buffers[0].alignment_bytes = 16;
  c.buffers[0].offset = 2;
  EXPECT_FALSE(absl::StrContains(Write(c, "sm_90").text, "k_load<"));
  // A tail: whole groups wide, the last one by element.
  NestCase odd = Scale(1023, 2);
  odd.kernel.variant = CudaPoints{.vector = 4};
  EXPECT_TRUE(absl::StrContains(Write(odd, "sm_90").text, "k_load_part<"));
}

TEST(WriteKernel, IndicesAreWideOnlyWhenTheyMustBe) {
  EXPECT_FALSE(absl::StrContains(Write(Scale(1 << 30, 2), "sm_90").text,
                                 "long long first"));
  EXPECT_TRUE(absl::StrContains(Write(Scale(int64_t{1} << 31, 2), "sm_90").text,
                                "long long first"));
}

TEST(WriteKernel, ABlockThatIsAloneMayHaveAllRegisters) {
  NestCase c = Scale(1000, 0.5);
  c.kernel.variant = CudaPoints{.vector = 4, .blocks = 512, .alone = 1};
  EXPECT_TRUE(absl::StrContains(Write(c, "sm_90").text,
                                "void __launch_bounds__(256, 1) kiln_"));
}

TEST(WriteKernel, AGridThatCoversAllPointsHasNoLoop) {
  NestCase c = Scale(1024, 0.5);
  c.kernel.variant = CudaPoints{};
  const std::string whole = Write(c, "sm_90").text;
  EXPECT_FALSE(absl::StrContains(whole, "gridDim")) << whole;
  EXPECT_FALSE(absl::StrContains(whole, "if (")) << whole;
  // Threads of the last block have nothing to do.
  NestCase odd = Scale(1000, 0.5);
  odd.kernel.variant = CudaPoints{};
  const std::string some = Write(odd, "sm_90").text;
  EXPECT_FALSE(absl::StrContains(some, "gridDim")) << some;
  EXPECT_TRUE(absl::StrContains(some, "if (first < (unsigned int)1000)"));
}

// Sums of columns, four rows a step for each of 64 threads, and with `stores` what a
// masked load gives stored beside them.
std::string ColumnSums(int64_t rows, bool stores) {
  NestCase c;
  const uint32_t i = c.Axis(64), r = c.Axis(rows, true);
  const BufferId x = c.In(DType::kFloat32, {rows, 64}),
                 z = c.Out(DType::kFloat32, {64});
  const DimVector at = {SymExpr::Axis(r), SymExpr::Axis(i)};
  ScalarId v = c.Load(x, at);
  if (stores) {
    const ScalarId row = c.Index(SymExpr::Axis(r));
    v = c.MaskedLoad(
        x, at, c.Op(ScalarOp::kLt, {row, c.Constant(DType::kInt64, 7.0)}), 0);
    c.Store(c.Out(DType::kFloat32, {rows, 64}), at, v);
  }
  c.Store(z, {SymExpr::Axis(i)}, c.Reduce(ReduceOp::kSum, v));
  c.kernel.nest.origins = {"sum"};
  c.kernel.variant =
      CudaColumns{.vector = 4, .across = 8, .down = 64, .unroll = 4};
  return Write(c, "sm_90").text;
}

TEST(WriteKernel, OneStepOfAColumnSumHasNoLoop) {
  const std::string whole = ColumnSums(256, false);
  EXPECT_THAT(whole, testing::HasSubstr("  {\n    const int r = y;\n"));
  EXPECT_THAT(whole, testing::Not(testing::HasSubstr("if (g <"))) << whole;
  const std::string part = ColumnSums(255, false);
  EXPECT_THAT(part, testing::HasSubstr("  if (const int r = y; r < 255) {\n"));
  EXPECT_THAT(part, testing::HasSubstr("if (g < 255) {\n"));
  EXPECT_THAT(ColumnSums(257, false),
              testing::HasSubstr("for (int r = y; r < 257; r += 256) {\n"));
}

TEST(WriteKernel, StepsThatNoLoadPassesAreWrittenOnce) {
  const std::string step = "(int u = 0; u < 4; ++u) {\n";
  EXPECT_THAT(ColumnSums(1000, true),
              testing::HasSubstr("#pragma unroll 1\n    for " + step));
  EXPECT_THAT(ColumnSums(1000, false),
              testing::HasSubstr("#pragma unroll\n    for " + step));
}

// The whole text, so that a change of style is seen.
TEST(WriteKernel, GoldenPointwiseCuda) {
  NestCase c = Scale(1000, 0.5);
  c.kernel.variant = CudaPoints{.vector = 4, .blocks = 512};
  const KernelSource source = Write(c, "sm_90");
  EXPECT_EQ(
      source.text,
      absl::StrCat(R"(extern "C" __global__ void __launch_bounds__(256) )",
                   source.symbol,
                   R"((const float* p0, float* p1) {
  k_wait_for_work_before();
  for (unsigned int first = (unsigned int)blockIdx.x * 256 + threadIdx.x; first < (unsigned int)250; first += (unsigned int)gridDim.x * 256) {
    const int i0 = (int)((first)) * 4;
    const k_pack<float, 4> l0 = k_load<float, 4>(p0 + i0);
    k_pack<float, 4> w1 = {};
    #pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float t2 = (k_at(l0, e) * 0.5f);
      k_put(w1, e, t2);
    }
    k_store(p1 + i0, w1);
  }
}
)"));
  EXPECT_EQ(source.grid[0], SymExpr(1));
  EXPECT_EQ(source.blocks_per_multiprocessor, 512u);
  EXPECT_EQ(source.block[0], 256u);
}

}  // namespace
}  // namespace kiln
