// How attention's kernels are mapped: what is chosen is what their code takes.
#include "compiler/schedule/flash_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/config/target.h"
#include "compiler/schedule/flash_configs.h"

namespace kiln {
namespace {

using Part = FlashKernel::Part;

FlashKernel KernelOf(Part part, int64_t width, int64_t value_width) {
  FlashKernel kernel = {.part = part};
  kernel.attention.backward = part != Part::kForward;
  kernel.attention.extents = {1, 1, 1, 1, 1, width, value_width};
  return kernel;
}

TEST(FlashKernel, FitsABlockOfEveryTarget) {
  constexpr int kWidthStep = 8, kWidest = 256;
  for (const absl::string_view name :
       {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a"}) {
    const Target target = *TargetFromName(name);
    const int64_t room =
        target.shared_bytes_per_multiprocessor - kSharedOfBlock;
    for (const Part part :
         {Part::kForward, Part::kQueryGrad, Part::kKeyGrads}) {
      for (int e = kWidthStep; e <= kWidest; e += kWidthStep) {
        for (int v = kWidthStep; v <= kWidest; v += kWidthStep) {
          SCOPED_TRACE(absl::StrCat(name, " ", PartName(part), " ", e, " ", v));
          const FlashKernel kernel = KernelOf(part, e, v);
          const std::vector<CudaFlash> configs = FlashConfigs(kernel, target);
          ASSERT_EQ(configs[0], ChooseFlash(kernel, target));
          ASSERT_LE(configs.size(), 20u);
          for (size_t i = 0; i < configs.size(); ++i) {
            const CudaFlash& found = configs[i];
            ASSERT_EQ(std::count(configs.begin(), configs.end(), found), 1);
            ASSERT_LE(SharedBytesOf(kernel, found), room);
            // Tensor cores multiply 16 columns; the sums of 64 queries are written.
            ASSERT_GE(found.warps, 1);
            ASSERT_GE(found.columns, 16 * found.sides);
            ASSERT_EQ(64 % found.columns, 0);
            ASSERT_EQ(found.warps % found.sides, 0);
            ASSERT_TRUE(part == Part::kKeyGrads || found.sides == 1);
            const int rows = PointsOfBlock(found);
            ASSERT_LE(rows, 128);
            if (part != Part::kQueryGrad) continue;
            ASSERT_TRUE(rows == 64 || rows == 128) << rows;
          }
        }
      }
    }
  }
}

TEST(FlashKernel, WarpsShareGradientsThatAreMoreThanOneHolds) {
  const auto words = [](int64_t width, absl::string_view target) {
    return ToText(KernelVariant(ChooseFlash(
        KernelOf(Part::kKeyGrads, width, width), *TargetFromName(target))));
  };
  EXPECT_EQ(words(192, "sm_90"),
            "cuda flash warps 4 tiles 1 columns 32 sides 1 held 0");
  EXPECT_EQ(words(256, "sm_90"),
            "cuda flash warps 8 tiles 2 columns 64 sides 4 held 0");
  // Where less fits, fewer have more of the width, and read fewer queries at once.
  EXPECT_EQ(words(256, "sm_80"),
            "cuda flash warps 8 tiles 1 columns 32 sides 2 held 0");
  EXPECT_EQ(words(256, "sm_86"),
            "cuda flash warps 2 tiles 1 columns 32 sides 2 held 0");
}

TEST(FlashKernel, IsMappedByItsHeadsByCausalAndByDropout) {
  struct Case {
    Part part;
    int64_t width;
    bool causal, drops;
    absl::string_view target, words;
  };
  constexpr bool kCausal = true, kDrops = true;
  for (const Case& c : std::vector<Case>{
           {Part::kForward, 192, !kCausal, !kDrops, "sm_90",
            "warps 8 tiles 1 columns 64 sides 1 held 1"},
           {Part::kForward, 192, kCausal, !kDrops, "sm_90",
            "warps 4 tiles 1 columns 32 sides 1 held 0"},
           {Part::kForward, 192, kCausal, kDrops, "sm_90",
            "warps 4 tiles 1 columns 32 sides 1 held 1"},
           {Part::kQueryGrad, 64, !kCausal, !kDrops, "sm_90",
            "warps 4 tiles 2 columns 32 sides 1 held 1"},
           {Part::kQueryGrad, 64, !kCausal, kDrops, "sm_90",
            "warps 4 tiles 2 columns 32 sides 1 held 1"},
           {Part::kKeyGrads, 64, !kCausal, !kDrops, "sm_90",
            "warps 4 tiles 2 columns 32 sides 1 held 0"},
           {Part::kKeyGrads, 64, !kCausal, kDrops, "sm_90",
            "warps 4 tiles 2 columns 32 sides 1 held 0"},
           {Part::kKeyGrads, 64, kCausal, kDrops, "sm_90",
            "warps 4 tiles 1 columns 64 sides 1 held 0"},
           // What would not fit has fewer columns.
           {Part::kQueryGrad, 192, !kCausal, !kDrops, "sm_90",
            "warps 8 tiles 1 columns 64 sides 1 held 0"},
           {Part::kQueryGrad, 192, !kCausal, !kDrops, "sm_80",
            "warps 8 tiles 1 columns 32 sides 1 held 0"},
       }) {
    FlashKernel kernel = KernelOf(c.part, c.width, c.width);
    if (c.causal) kernel.attention.causal = Attention::Causal::kTopLeft;
    if (c.drops) kernel.attention.dropout = 0.1;
    EXPECT_EQ(
        ToText(KernelVariant(ChooseFlash(kernel, *TargetFromName(c.target)))),
        absl::StrCat("cuda flash ", c.words))
        << PartName(c.part) << " " << c.width << " causal " << c.causal
        << " dropout " << c.drops;
  }
}

FlashKernel Keyed(Part part) {
  FlashKernel kernel = KernelOf(part, 64, 64);
  kernel.attention.extents = {2, 8, 8, 512, 256, 64, 64};
  View query;
  query.dtype = DType::kBFloat16;
  kernel.attention.arrays[Attention::kQuery] = query;
  return kernel;
}

TEST(FlashKernel, TakesTheMappingThatADecisionNames) {
  const Target target = *TargetFromName("sm_80");
  const ShapeEnv shapes;
  const FlashKernel kernel = Keyed(Part::kForward);
  const std::string key = TuningKey(kernel, shapes, target);
  EXPECT_EQ(key.find("flash_forward/bf16/2x8x512x256x64/"), 0u) << key;
  EXPECT_EQ(key.substr(key.size() - 6), "/sm_80");
  const FlashChoice before = DecideFlash(kernel, shapes, target, {});
  EXPECT_EQ(before.variant, ChooseFlash(kernel, target));
  EXPECT_EQ(before.key, key);
  EXPECT_EQ(before.decision, "");
  const CudaFlash other = FlashConfigs(kernel, target).at(1);
  const std::string words = ToText(KernelVariant(other));
  const FlashChoice after = DecideFlash(kernel, shapes, target, {{key, words}});
  EXPECT_EQ(after.variant, other);
  EXPECT_EQ(after.decision, words);
  EXPECT_EQ(ToText(kernel, after),
            absl::StrCat("kernel flash_forward\n  key ", key,
                         "\n  tuned: ", words, "\n* ", words, "\n"));
}

TEST(FlashKernel, IgnoresADecisionThatItCannotTake) {
  const Target target = *TargetFromName("sm_80");
  const ShapeEnv shapes;
  const FlashKernel kernel = Keyed(Part::kKeyGrads);
  const std::string key = TuningKey(kernel, shapes, target);
  for (const absl::string_view words :
       {"", "engine8.3=1", "flash warps 4 tiles 2 columns 64 sides 2",
        "flash warps 8 tiles 2 columns 32 sides 1"}) {
    const FlashChoice choice =
        DecideFlash(kernel, shapes, target, {{key, std::string(words)}});
    EXPECT_EQ(choice.variant, ChooseFlash(kernel, target)) << words;
    EXPECT_NE(choice.ignored.find("flash_key_grads: no mapping of it is"),
              std::string::npos)
        << choice.ignored;
  }
  // One for another chip, or another part, is for another key.
  const std::string words =
      ToText(KernelVariant(FlashConfigs(kernel, target).at(1)));
  const FlashChoice elsewhere =
      DecideFlash(kernel, shapes, target,
                  {{TuningKey(kernel, shapes, *TargetFromName("sm_90")), words},
                   {TuningKey(Keyed(Part::kForward), shapes, target), words}});
  EXPECT_EQ(elsewhere.variant, ChooseFlash(kernel, target));
  EXPECT_EQ(elsewhere.decision, "");
}

TEST(FlashKernel, OtherWorkHasAnotherKey) {
  const Target target = *TargetFromName("sm_80");
  const ShapeEnv shapes;
  const FlashKernel kernel = Keyed(Part::kForward);
  const std::string key = TuningKey(kernel, shapes, target);
  FlashKernel other = kernel;
  other.attention.causal = Attention::Causal::kTopLeft;
  EXPECT_NE(TuningKey(other, shapes, target), key);
  other = kernel;
  other.attention.dropout = 0.1;
  EXPECT_NE(TuningKey(other, shapes, target), key);
  other = kernel;
  other.attention.extents[Attention::kX] = 2;
  EXPECT_NE(TuningKey(other, shapes, target), key);
  other = kernel;
  other.attention.scale = 0.25;  // costs the same
  EXPECT_EQ(TuningKey(other, shapes, target), key);
}

}  // namespace
}  // namespace kiln
