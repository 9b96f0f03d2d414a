#include "compiler/codegen/write_kernels.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string DropoutKernel(absl::string_view label, absl::string_view variant,
                          absl::string_view from, absl::string_view to,
                          int stream) {
  return absl::StrCat("  kernel ", label, " ", variant,
                      " {\n"
                      "    nest native_dropout [i0 in 64] {\n"
                      "      t0 = seed i64\n"
                      "      t1 = index i64 i0\n"
                      "      t2 = random f32 t0, t1 number ",
                      stream, "\n      t3 = load f32 ", from,
                      "[i0]\n      t4 = mul f32 t2, t3\n      ", to,
                      "[i0] = t4\n    }\n  }\n");
}

TEST(WriteKernels, LayersThatDrawFromOtherStreamsShareAKernel) {
  for (const auto& [target, variant] :
       {std::pair("sm_90",
                  "cuda points vector 1 unroll 1 threads 256 peel 0 blocks 512 "
                  "alone 0 whole 0"),
        std::pair("x86-64-v3",
                  "cpu points block 4096 interior 0 grain 16384")}) {
    const auto plan = ParseKernelPlan(absl::StrCat(
        "plan @g() {\n  in x : f32[64] index 0\n  out y : f32[64]\n"
        "  out z : f32[64]\n",
        DropoutKernel("first", variant, "x", "y", 3),
        DropoutKernel("second", variant, "y", "z", 8),
        "  arena 0 bytes, peak live 0\n}\n"));
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto sources = WriteKernels(*plan, *TargetFromName(target));
    ASSERT_TRUE(sources.ok()) << sources.status();
    ASSERT_EQ(sources->size(), 2u);
    EXPECT_EQ((*sources)[0].symbol, (*sources)[1].symbol);
    std::vector<int64_t> streams;
    for (const KernelSource& source : *sources) {
      for (const KernelParam& param : source.params) {
        if (param.kind == KernelParam::Kind::kScalar)
          streams.push_back(param.scalar.constant());
      }
    }
    EXPECT_EQ(streams, (std::vector<int64_t>{3, 8}));
    EXPECT_EQ((*sources)[1].params[0].buffer,
              (*sources)[0].params[1].buffer);  // y
  }
}

std::string Asserts(absl::string_view of, absl::string_view to,
                    absl::string_view variant) {
  return absl::StrCat("  kernel ", of, " ", variant,
                      " {\n    nest _assert_async [] {\n      t0 = load bool ",
                      of, "[]\n      ", to, "[] = t0\n    }\n  }\n");
}

// Two assertions are two kernels where their texts differ, and one where they do not.
TEST(WriteKernels, AssertionsOfOtherTextsAreOtherKernels) {
  for (const auto& [target, variant] :
       {std::pair("sm_90",
                  "cuda points vector 1 unroll 1 threads 256 peel 0 blocks 512 "
                  "alone 0 whole 0"),
        std::pair("x86-64-v3",
                  "cpu points block 4096 interior 0 grain 16384")}) {
    const auto plan = ParseKernelPlan(absl::StrCat(
        "plan @g() {\n  in x : bool[] index 0\n  in y : bool[] index 1\n"
        "  in z : bool[] index 2\n  tmp a : bool[] asserts \"one "
        "\\\"text\\\"\"\n"
        "  tmp b : bool[] asserts \"another\"\n  tmp c : bool[] asserts "
        "\"another\"\n",
        Asserts("x", "a", variant), Asserts("y", "b", variant),
        Asserts("z", "c", variant), "  arena 0 bytes, peak live 0\n}\n"));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(ParseKernelPlan(ToText(*plan)).value().buffers[3].assertion,
              "one \"text\"");
    const auto sources = WriteKernels(*plan, *TargetFromName(target));
    ASSERT_TRUE(sources.ok()) << sources.status();
    ASSERT_EQ(sources->size(), 3u);
    EXPECT_THAT((*sources)[0].text, HasSubstr("\"one \\\"text\\\"\""));
    EXPECT_THAT((*sources)[1].text, HasSubstr("\"another\""));
    EXPECT_NE((*sources)[0].symbol, (*sources)[1].symbol);
    EXPECT_EQ((*sources)[1].symbol, (*sources)[2].symbol);
  }
}

std::string Doubles(absl::string_view label, absl::string_view origin,
                    absl::string_view from, absl::string_view to) {
  return absl::StrCat("  kernel ", label,
                      " cuda points vector 1 unroll 1 threads 256 peel 0 "
                      "blocks 512 alone 0 whole 0 {\n    nest ",
                      origin, " [i0 in 64] {\n      t0 = load f32 ", from,
                      "[i0]\n      t1 = add f32 t0, t0\n      ", to,
                      "[i0] = t1\n    }\n  }\n");
}

TEST(WriteKernels, EqualTextsOfOtherOperatorsAreOneKernel) {
  const auto plan = ParseKernelPlan(absl::StrCat(
      "plan @g() {\n  in x : f32[64] index 0\n  out y : f32[64]\n"
      "  out z : f32[64]\n",
      Doubles("first", "add", "x", "y"), Doubles("second", "mul", "y", "z"),
      "  arena 0 bytes, peak live 0\n}\n"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto sources = WriteKernels(*plan, *TargetFromName("sm_90"));
  ASSERT_TRUE(sources.ok()) << sources.status();
  ASSERT_EQ(sources->size(), 2u);
  EXPECT_EQ((*sources)[0].symbol, (*sources)[1].symbol);
  EXPECT_EQ((*sources)[0].text, (*sources)[1].text);
  EXPECT_EQ(GroupIntoUnits(*sources, *TargetFromName("sm_90")).size(), 1u);
  EXPECT_EQ((*sources)[1].params[0].buffer,
            (*sources)[0].params[1].buffer);  // y
}

// A kernel of `bytes` of text that ends in `body`.
KernelSource SourceOf(int digest, size_t bytes, absl::string_view body) {
  KernelSource source;
  source.symbol = absl::StrFormat("kiln_poi_fused_add_%012x", digest);
  source.text = absl::StrCat(std::string(bytes - body.size(), ' '), body);
  return source;
}

TEST(GroupIntoUnits, KernelsThatCheckIndicesShareTheirMessage) {
  std::vector<KernelSource> sources;
  for (int k = 1; k <= 6; ++k) {
    sources.push_back(
        SourceOf(k, 100, k % 2 == 0 ? "k_check_index(i)" : "k_bf16_to_f32(x)"));
  }
  sources.push_back(SourceOf(7, 5000, ""));
  sources.push_back(SourceOf(8, 100, "k_wrap_index(i)"));  // ends a unit
  const auto units = GroupIntoUnits(sources, *TargetFromName("sm_90"));
  ASSERT_EQ(units.size(), 3u);
  EXPECT_EQ(units[0].symbols[0], sources[6].symbol);
  EXPECT_EQ(units[1].symbols.size(), 4u);
  EXPECT_THAT(units[1].source, HasSubstr("k_outside_met"));
  EXPECT_EQ(units[2].symbols.size(), 3u);
  EXPECT_THAT(units[2].source, Not(HasSubstr("k_outside_met")));
}

TEST(GroupIntoUnits, TheTextsOfAUnitAreBounded) {
  std::vector<KernelSource> sources;
  for (int k = 1; k <= 5; ++k) sources.push_back(SourceOf(k, 3000, ""));
  const auto units = GroupIntoUnits(sources, *TargetFromName("sm_90"));
  ASSERT_EQ(units.size(), 3u);
  EXPECT_EQ(units[0].symbols.size(), 2u);
  EXPECT_EQ(units[2].symbols.size(), 1u);
  EXPECT_EQ(GroupIntoUnits(sources, *TargetFromName("x86-64-v3")).size(), 1u);
}

}  // namespace
}  // namespace kiln
