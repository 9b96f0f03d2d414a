// Rules of kernel_plan_verifier.h for one mapping alone: products and tiles.

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/compiler/schedule/plan_text_check.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

TEST(KernelPlanVerifier, ProductsAreOfMatrices) {
  const auto plan = [](absl::string_view tiles, absl::string_view factor) {
    return absl::StrCat(R"(plan @g() {
  in x : bf16[1024] index 0
  in w : bf16[2048] index 1
  out y : f32[8192]
  kernel mm cuda products tiles )",
                        tiles, R"( strips 2 down 2 across 2 whole 40 {
    nest mm [i0 in 64, i1 in 128, reduce i2 in 16] {
      t0 = load bf16 x[16*i0 + i2]
      t1 = cast f32 t0
      t2 = load bf16 w[)",
                        factor,
                        R"(]
      t3 = cast f32 t2
      t4 = mul f32 t1, t3
      t5 = reduce f32 t4 by sum
      y[128*i0 + i1] = t5
    }
  }
  return view y f32 [64, 128] strides [128, 1] offset 0
  arena 0 bytes, peak live 0
}
)");
  };
  ExpectReadsBack(plan("2", "16*i1 + i2"));
  ExpectReadsBack(plan("4", "i1 + 128*i2"));
  ExpectBreaks("K16", plan("3", "i1 + 128*i2"));
  ExpectBreaks("K16", plan("8", "i1 + 128*i2"));
  // Both factors move with rows, and none with columns; no two neighbours.
  ExpectBreaks("K16", plan("2", "16*i0 + i2"));
  ExpectBreaks("K16", plan("2", "2*i1 + 100*i2"));
}

constexpr char kTransposes[] = R"(plan @g() {
  in x : i16[9999] index 0
  in y : i16[9999] index 1
  out z : i16[9999]
  kernel most cuda tiles axis 0 edge 64 depth 32 vector 8 across 8 peel 1 whole 40 {
    nest maximum [i0 in 99, i1 in 101] {
      t0 = load i16 x[101*i0 + i1]
      t1 = load i16 y[i0 + 99*i1]
      t2 = maximum i16 t0, t1
      z[101*i0 + i1] = t2
    }
  }
  return view z i16 [99, 101] strides [101, 1] offset 0
  arena 0 bytes, peak live 0
}
)";

TEST(KernelPlanVerifier, TheBorderOfAPeeledTileFollowsAllStores) {
  ExpectReadsBack(kTransposes);
  const auto with = [](absl::string_view from, absl::string_view to) {
    EXPECT_THAT(std::string(kTransposes), HasSubstr(std::string(from)));
    return absl::StrReplaceAll(kTransposes, {{from, to}});
  };
  ExpectBreaks("K15", with("edge 64", "edge 68"));
  ExpectBreaks("K15", with("depth 32", "depth 36"));
  ExpectBreaks("K15", with("vector 8 across 8", "vector 1 across 1"));
  ExpectBreaks("K15", with("peel 1", "peel 2"));
  // Nothing goes through shared memory; loads and stores do.
  ExpectBreaks("K15", with("y[i0 + 99*i1]", "y[101*i0 + i1]"));
  ExpectBreaks("K15", with("z[101*i0 + i1] =", "z[i0 + 99*i1] ="));
  // Stores both ways.
  ExpectBreaks(
      "K15",
      absl::StrReplaceAll(
          kTransposes,
          {{"y[i0 + 99*i1]", "y[101*i0 + i1]"},
           {"out z : i16[9999]\n", "out z : i16[9999]\n  out w : i16[9999]\n"},
           {"z[101*i0 + i1] = t2\n",
            "z[101*i0 + i1] = t2\n      w[i0 + 99*i1] = t2\n"}}));
}

}  // namespace
}  // namespace kiln
