// Loops, fusion and plans mean what the graph means.

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "gtest/gtest.h"
#include "tests/compiler/schedule/plan_check.h"

namespace kiln {
namespace {

TEST(PlanMeaning, PointwiseIsOneKernel) {
  constexpr char kText[] = R"(
      graph @g()(%x: f32[4, 8], %b: f32[8]) -> (%y) {
        %s = add.Tensor(%x, %b)
        %y = relu(%s)
      })";
  ExpectMeansTheSame(kText);
  EXPECT_EQ(NumKernels(PlanOf(kText, "sm_90")), 1);
}

TEST(PlanMeaning, APaddingIsLessThanAnyByte) {
  ExpectMeansTheSame(R"(
      graph @g()(%x: u8[1, 2, 3, 6], %i: i64[1, 1, 3, 4], %c: i8[1, 1, 3, 4])
          -> (%a, %at, %b, %bt, %d, %dt) {
        %a, %at = max_pool2d_with_indices(%x, [3, 2], [2, 2], [1, 1], [1, 2], true)
        %b, %bt = max_pool2d_with_indices(%i, [3, 3], [2, 2], [1, 1])
        %d, %dt = max_pool2d_with_indices(%c, [3, 3], [2, 2], [1, 1])
      })");
}

TEST(PlanMeaning, RowSumTakesItsProducerIn) {
  constexpr char kText[] = R"(
      graph @g()(%x: f32[4, 8]) -> (%y) {
        %s = mul.Tensor(%x, %x)
        %y = sum.dim_IntList(%s, [1])
      })";
  ExpectMeansTheSame(kText);
  EXPECT_EQ(NumKernels(PlanOf(kText, "sm_90")), 1);
}

TEST(PlanMeaning, SoftmaxIsOneKernel) {
  constexpr char kText[] = R"(
      graph @g()(%x: f32[4, 6, 8]) -> (%y) {
        %m = amax(%x, [-1], true)
        %d = sub.Tensor(%x, %m)
        %e = exp(%d)
        %s = sum.dim_IntList(%e, [-1], true)
        %y = div.Tensor(%e, %s)
      })";
  ExpectMeansTheSame(kText);
  EXPECT_EQ(NumKernels(PlanOf(kText, "sm_90")), 1);
}

TEST(PlanMeaning, ViewsCostNothing) {
  constexpr char kText[] = R"(
      graph @g()(%x: f32[2, 6, 8]) -> (%y) {
        %v = view(%x, [2, 6, 2, 4])
        %p = permute(%v, [0, 2, 1, 3])
        %e = exp(%p)
        %q = permute(%e, [0, 2, 1, 3])
        %w = view(%q, [12, 8])
        %y = add.Tensor(%w, 1.0)
      })";
  ExpectMeansTheSame(kText);
}

TEST(PlanMeaning, ContractionsAreWhatTheirOperatorsWere) {
  // With epilogues, as loops, in views, as integers, of groups and transposed.
  ExpectMeansTheSame(R"(
      graph @g()(%a: f32[6, 8], %b: f32[8, 5], %c: f32[5], %u: f32[1, 24],
                 %w: f32[2, 3, 24], %p: f32[5, 1], %q: f32[1, 7],
                 %i: i64[2, 3, 4], %j: i64[2, 4, 5])
          -> (%y, %v, %o, %s) {
        %m = addmm(%c, %a, %b, 0.5, 2)
        %n = view(%m, [2, 3, 5])
        %y = relu(%n)
        %d = view(%w, [6, 24])
        %t = permute(%d, [1, 0])
        %e = mm(%u, %t)
        %v = exp(%e)
        %h = mm(%p, %q)
        %o = mul.Tensor(%h, 0.25)
        %s = bmm(%i, %j)
      })");
  ExpectMeansTheSame(R"(
      graph @g()(%x: f32[2, 4, 5, 6], %w: f32[6, 2, 3, 3], %b: f32[6],
                 %g: f32[2, 6, 3, 4], %t: f32[4, 3, 2, 2], %c: f32[6, 1, 1])
          -> (%y, %dx, %dw, %z) {
        %k = convolution(%x, %w, %b, [2, 1], [1, 0], [1, 1], false, [0, 0], 2)
        %y = relu(%k)
        %dx, %dw, %db = convolution_backward(%g, %x, %w, none, [2, 1], [1, 0],
            [1, 1], false, [0, 0], 2, [true, true, false])
        %l = convolution(%x, %t, none, [2, 2], [0, 0], [1, 1], true, [1, 1], 2)
        %z = add.Tensor(%l, %c)
      })");
}

// Calls of a graph's plan for CUDA that have an attribute.
int CallsWith(absl::string_view graph_text, absl::string_view name) {
  int calls = 0;
  const PassEnv env{*TargetFromName("sm_90"), {}};
  for (const PlannedStep& step : PlanWith(graph_text, env).steps) {
    const auto* call = std::get_if<LibraryCall>(&step);
    if (call == nullptr) continue;
    for (const Attribute& attribute : call->attributes)
      calls += attribute.name == name;
  }
  return calls;
}

TEST(PlanMeaning, ConvolutionsOfHalfTypesTakeTheirBatchNormAndRelu) {
  constexpr char kText[] = R"(
      graph @g() on cuda(%x: bf16[2, 4, 12, 10], %w: bf16[8, 4, 3, 3], %g: f32[8],
                         %b: f32[8], %m: f32[8], %v: f32[8]) -> (%y) {
        %k = convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
        %e = mul.Tensor(%v, %v)
        %n, %p, %q = _native_batch_norm_legit_no_training(%k, %g, %b, %m, %e, 0.1, 0.5)
        %r = relu(%n)
        %y, %i = max_pool2d_with_indices(%r, [2, 2], [2, 2])
      })";
  ExpectMeansTheSame(kText);
  EXPECT_EQ(CallsWith(kText, "activation"), 1);
}

TEST(PlanMeaning, ConvolutionsOfHalfTypesTakeWhatIsAddedBeforeTheirRelu) {
  constexpr char kText[] = R"(
      graph @g() on cuda(%x: bf16[2, 8, 6, 4] strides [192, 1, 32, 8], %w: bf16[8, 8, 3, 3],
                         %b: bf16[8]) -> (%y) {
        %k = convolution(%x, %w, %b, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
        %z = sin(%x)
        %s = add.Tensor(%z, %k)
        %r = relu(%s)
        %y, %i = max_pool2d_with_indices(%r, [2, 2], [2, 2])
      })";
  ExpectMeansTheSame(kText);
  EXPECT_EQ(CallsWith(kText, "added"), 1);
}

TEST(PlanMeaning, WhatIsPaddedInPlaceIsWhatWasCopied) {
  // By one column and by some, transposed, beside other readers.
  ExpectMeansTheSame(R"(
      graph @g()(%x: f32[6, 1031], %b: f32[1032, 2], %h: f16[3, 1030],
                 %c: f16[3, 1034]) -> (%y, %z, %s) {
        %e = add.Tensor(%x, 1)
        %p = constant_pad_nd(%e, [0, 1], 2.5)
        %y = mm(%p, %b)
        %r = relu(%h)
        %q = constant_pad_nd(%r, [0, 4, 0, 0], -1.5)
        %t = t(%q)
        %z = mm(%c, %t)
        %s = sum.dim_IntList(%r, [0])
      })");
}

TEST(PlanMeaning, LayerNormOverAMatmulResultIsOneKernel) {
  constexpr char kText[] = R"(
      graph @g()(%a: f32[12, 5], %w: f32[5, 8], %b: f32[8], %x: f32[3, 4, 8],
               %g: f32[8]) -> (%y, %mean) {
        %mm = addmm(%b, %a, %w)
        %v = view(%mm, [3, 4, 8])
        %r = add.Tensor(%v, %x)
        %s = sum.dim_IntList(%r, [2], true)
        %mean = div.Scalar(%s, 8)
        %c = sub.Tensor(%r, %mean)
        %q = mul.Tensor(%c, %c)
        %qs = sum.dim_IntList(%q, [2], true)
        %var = div.Scalar(%qs, 8)
        %e = add.Scalar(%var, 1e-5)
        %i = rsqrt(%e)
        %n = mul.Tensor(%c, %i)
        %y = mul.Tensor(%n, %g)
      })";
  ExpectMeansTheSame(kText);
  EXPECT_EQ(NumKernels(PlanOf(kText, "sm_90")), 1);
}

TEST(PlanMeaning, BatchNormOverChannelsIsOneKernelWithItsStatistics) {
  constexpr char kText[] = R"(
      graph @g()(%x: f32[2, 3, 4, 4], %mean: f32[3], %n: i64[]) -> (%y) {
        %s = sum.dim_IntList(%x, [0, 2, 3])
        %m = div.Scalar(%s, 32)
        %mv = view(%m, [1, 3, 1, 1])
        %y = sub.Tensor(%x, %mv)
        %old = mul.Scalar(%mean, 0.9)
        %new = mul.Scalar(%m, 0.1)
        %stat = add.Tensor(%old, %new)
        %count = add.Scalar(%n, 1)
        mutate %mean = %stat
        mutate %n = %count
      })";
  ExpectMeansTheSame(kText);
  EXPECT_LE(NumKernels(PlanOf(kText, "sm_90")), 2);
}

TEST(PlanMeaning, ACacheIsWrittenWhereItIsAndReadAfterwards) {
  constexpr char kText[] = R"(
      graph @g() on cuda(%keys: f32[2, 16, 8], %seen: i64[3], %one: i64[1], %k: f32[2, 1, 8],
                 %q: f32[2, 16, 8], %n: i64[16]) -> (%s, %t) {
        %place = remainder.Scalar(%one, 16)
        %r = mul.Tensor(%k, 2.0)
        %new = index_put(%keys, [none, %place], %r)
        %p = mul.Tensor(%q, %new)
        %s = sum.dim_IntList(%p, [2])
        %t = exp(%new)
        %where = remainder.Scalar(%seen, 16)
        %count = full([3], 1, dtype=i64)
        %counts = index_put(%n, [%where], %count, true)
        mutate %keys = %new
        mutate %n = %counts
      })";
  ExpectMeansTheSame(kText);
  EXPECT_EQ(ToText(PlanOf(kText, "sm_90")).find("copy_"), std::string::npos);
}

TEST(PlanMeaning, ColumnSumsOfOneMatrixShareAKernel) {
  constexpr char kText[] = R"(
      graph @g()(%x: f32[3, 4, 8], %y: f32[3, 4, 8]) -> (%a, %b) {
        %p = mul.Tensor(%x, %y)
        %a = sum.dim_IntList(%p, [0, 1])
        %b = sum.dim_IntList(%y, [0, 1])
      })";
  ExpectMeansTheSame(kText);
  EXPECT_EQ(NumKernels(PlanOf(kText, "sm_90")), 1);
}

TEST(PlanMeaning, CatReadsItsPartsUnderMasks) {
  ExpectMeansTheSame(R"(
      graph @g()(%x: f32[2, 3], %y: f32[2, 5], %z: f32[2, 1]) -> (%c) {
        %e = exp(%x)
        %n = neg(%z)
        %c = cat([%e, %y, %n], 1)
      })");
}

TEST(PlanMeaning, GatherAndScatter) {
  ExpectMeansTheSame(R"(
      graph @g()(%w: f32[5, 4], %i: i64[3, 2], %g: f32[3, 2, 4]) -> (%e, %d) {
        %e = embedding(%w, %i)
        %d = embedding_dense_backward(%g, %i, 5, -1, false)
      })");
}

TEST(PlanMeaning, SymbolicRows) {
  constexpr char kText[] = R"(
      graph @g(N in [2, 64] = 6)(%x: f32[N, 8], %b: f32[8]) -> (%y, %s) {
        %v = view(%x, [N, 2, 4])
        %e = exp(%v)
        %w = view(%e, [N, 8])
        %y = add.Tensor(%w, %b)
        %s = sum.dim_IntList(%y, [0])
      })";
  ExpectMeansTheSame(kText);
}

// The gradients of a masked product. With no element chosen, sizes are written
// as 0 here and as N there.
TEST(PlanMeaning, SizesThatAreFoundInDataMayBeNone) {
  for (const absl::string_view hint : {"0", "1", "2", "3"}) {
    ExpectMeansTheSame(absl::StrCat("graph @g(N in [0, 3] = ", hint, R"()(
          %w: f32[], %e: f32[N, 1], %s: f32[], %t: f32[N, 1])
          -> (%a, %n, %y, %z) {
        %a = mul.Tensor(%t, %e)
        %v = expand(%w, [N, 1])
        %b = mul.Tensor(%a, %v)
        %c = squeeze.dim(%b, 1)
        %m = mul.Tensor(%s, N)
        %n = expand(%m, [N])
        %d = mul.Tensor(%n, %w)
        %y = add.Tensor(%c, %d)
        %z = new_zeros(%y, [3])
      })"));
  }
}

TEST(PlanMeaning, HalvesAreComputedInFloat) {
  ExpectMeansTheSame(R"(
      graph @g()(%x: bf16[4, 8], %y: bf16[4, 8]) -> (%z) {
        %s = add.Tensor(%x, %y)
        %m = mul.Tensor(%s, %x)
        %z = sum.dim_IntList(%m, [1])
      })");
}

// Random inputs of integers are 0 or 1, so some rows see some columns, and the
// last sees none.
TEST(PlanMeaning, ARowOfAttentionThatSeesNothingIsZeroAndSoAreItsGradients) {
  ExpectMeansTheSame(R"(
      graph @g()(%q: f32[1, 2, 4, 8], %k: f32[1, 2, 3, 8], %i: i64[1, 1, 4, 3],
               %g: f32[1, 2, 4, 8]) -> (%y, %l, %a, %b, %c) {
        %rows = prims.iota(4, 0, 1, i64, cpu, false)
        %column = view(%rows, [4, 1])
        %early = lt.Scalar(%column, 3)
        %some = eq.Scalar(%i, 1)
        %m = logical_and(%some, %early)
        %y, %l = _scaled_dot_product_flash_attention_for_cpu(%q, %k, %k, 0.0, false, %m)
        %a, %b, %c = _scaled_dot_product_flash_attention_for_cpu_backward(%g, %q, %k, %k, %y, %l, 0.0, false, %m)
      })");
}

// What optimizers do beside the members' own arithmetic: Adam's corrections,
// its maximum, and the clipping of gradients.
TEST(PlanMeaning, ListsMeetNumbersAndSingleTensors) {
  ExpectMeansTheSame(R"(
      graph @g()(%x: f32[3], %y: f32[2, 2], %u: f32[3], %v: f32[2, 2],
               %s: f32[]) -> (%a, %b, %c, %d, %e, %f, %h, %i) {
        %a, %b = _foreach_pow.ScalarAndTensor(0.5, [%x, %y])
        %c, %d = _foreach_maximum.List([%x, %y], [%u, %v])
        %e, %f = _foreach_mul.Tensor([%x, %y], %s)
        %p, %q = _foreach_abs([%x, %y])
        %h, %i = _foreach_minimum.List([%p, %q], [%u, %v])
      })");
}

}  // namespace
}  // namespace kiln
