// Tiny products that become loops are counted as Inductor's passes decompose_mm,
// decompose_addmm and decompose_bmm count them.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "gtest/gtest.h"
#include "tests/compiler/schedule/plan_check.h"

namespace kiln {
namespace {

using Names = std::vector<std::string>;

Names TinyProductsOf(absl::string_view graph, absl::string_view target) {
  Names names =
      NestsWith(graph, PassEnv{*TargetFromName(target), CompileOptions()})
          .tiny_products;
  std::sort(names.begin(), names.end());
  return names;
}

TEST(ChooseContraction, ABatchOfTinyProductsAndItsGradientsAreThree) {
  EXPECT_EQ(TinyProductsOf(R"(
graph @forward() on cuda(%a: f32[10240, 2, 2], %b: f32[10240, 2, 2]) -> (%p) {
  %p = bmm(%a, %b)
})",
                           "sm_90"),
            Names({"bmm"}));
  EXPECT_EQ(TinyProductsOf(R"(
graph @backward() on cuda(%a: f32[10240, 2, 2], %b: f32[10240, 2, 2], %g: f32[10240, 2, 2]) -> (%da, %db) {
  %at = transpose.int(%a, 1, 2)
  %bt = transpose.int(%b, 1, 2)
  %da = bmm(%g, %bt)
  %db = bmm(%at, %g)
})",
                           "sm_90"),
            Names({"bmm", "bmm"}));
}

TEST(ChooseContraction, SmallerBatchesAndLargerMatricesAreTheLibrarys) {
  for (const absl::string_view sizes : {"[1, 2, 2]", "[2, 2, 2]"}) {
    const std::string graph = "graph @g() on cuda(%a: f32" +
                              std::string(sizes) + ") -> (%p) {\n" +
                              "  %p = bmm(%a, %a)\n}";
    EXPECT_EQ(TinyProductsOf(graph, "sm_90"), Names()) << sizes;
  }
  EXPECT_EQ(TinyProductsOf(R"(
graph @g() on cuda(%a: f32[20480, 32], %b: f32[32, 2], %c: f32[2048, 2], %d: f32[2, 2]) -> (%p, %q) {
  %p = mm(%a, %b)
  %q = mm(%c, %d)
})",
                           "sm_90"),
            Names());
}

TEST(ChooseContraction, ALinearWithABiasIsAnAddmm) {
  EXPECT_EQ(TinyProductsOf(R"(
graph @g() on cuda(%x: f32[20480, 5], %w: f32[5, 2], %b: f32[2], %g: f32[20480, 2], %t: f32[2, 5]) -> (%y, %dx) {
  %y = addmm(%b, %x, %w)
  %dx = mm(%g, %t)
})",
                           "sm_90"),
            Names({"addmm", "mm"}));
}

TEST(ChooseContraction, OnTheCpuABatchOfOneIsTinyAndOneOfTwoIsNot) {
  EXPECT_EQ(TinyProductsOf(R"(
graph @g()(%a: f32[1, 2, 2], %b: f32[2, 2, 2], %c: f32[1, 64, 64]) -> (%p, %q, %r) {
  %p = bmm(%a, %a)
  %q = bmm(%b, %b)
  %r = bmm(%c, %c)
})",
                           "x86-64-v3"),
            Names({"bmm"}));
}

TEST(ChooseContraction, OnTheCpuARowByAMatrixCountsUpTo2048) {
  EXPECT_EQ(TinyProductsOf(R"(
graph @g()(%a: f32[1, 64], %b: f32[64, 8], %c: f32[1, 64], %d: f32[64, 4096], %e: f32[8, 64], %f: f32[64, 1]) -> (%p, %q, %r) {
  %p = mm(%a, %b)
  %q = mm(%c, %d)
  %r = mm(%e, %f)
})",
                           "x86-64-v3"),
            Names({"mm"}));
}

}  // namespace
}  // namespace kiln
