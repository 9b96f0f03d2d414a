#include "compiler/schedule/library_takes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/loop/loop_text.h"

namespace kiln {
namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

// What is said of the first step of a program, for cuBLASLt and cuDNN or for oneDNN.
std::string GroundOf(const std::string& text, absl::string_view target) {
  const absl::StatusOr<LoopProgram> program = ParseLoopProgram(text);
  EXPECT_TRUE(program.ok()) << program.status() << "\n" << text;
  if (!program.ok()) return "";
  std::string ground;
  const bool taken = LibraryTakes(std::get<Contraction>(program->steps.at(0)),
                                  program->buffers, program->shapes,
                                  *TargetFromName(target), ground);
  return absl::StrCat(taken ? "" : "not ", ground);
}

// A product times the gradient of a gelu of x.
std::string GeluGradient(const Changes& changes,
                         absl::string_view target = "sm_90") {
  return GroundOf(absl::StrReplaceAll(R"(loops @g(s0 in [1, 4096] = 64) {
  in a : bf16[4096, 64] index 0
  in b : bf16[64, 2048] index 1
  in x : bf16[4096, 2048] index 2
  out y : bf16[4096, 2048]
  product mm [m i0 in 4096, n i1 in 2048, k i2 in 64] {
    a view a bf16 [4096, 64] strides [64, 1] offset 0 at [i0, i2]
    b view b bf16 [64, 2048] strides [2048, 1] offset 0 at [i2, i1]
    c view y bf16 [4096, 2048] strides [2048, 1] offset 0 at [i0, i1]
    t0 = factor bf16 number 0
    t1 = cast f32 t0
    t2 = factor bf16 number 1
    t3 = cast f32 t2
    t4 = contract f32 t1, t3
    t5 = load bf16 x[i0, i1]
    t6 = cast f32 t5
    t7 = mul f32 t6, t6
    t8 = mul f32 t6, t7
    t9 = constant f32 0.044714998453855515
    t10 = mul f32 t8, t9
    t11 = add f32 t6, t10
    t12 = constant f32 0.7978845834732056
    t13 = mul f32 t11, t12
    t14 = tanh f32 t13
    t15 = constant f32 1
    t16 = add f32 t14, t15
    t17 = constant f32 0.5
    t18 = mul f32 t16, t17
    t19 = constant f32 0.13414500653743744
    t20 = mul f32 t7, t19
    t21 = add f32 t20, t15
    t22 = mul f32 t21, t12
    t23 = mul f32 t14, t14
    t24 = sub f32 t15, t23
    t25 = mul f32 t6, t17
    t26 = mul f32 t24, t25
    t27 = mul f32 t22, t26
    t28 = add f32 t18, t27
    t29 = mul f32 t4, t28
    t30 = cast bf16 t29
    c = t30
  }
  return view y bf16 [4096, 2048] strides [2048, 1] offset 0
}
)",
                                      changes),
                  target);
}

TEST(LibraryTakes, OfTheGradientOfAGeluEachRefusalHasItsOwnGround) {
  EXPECT_EQ(GeluGradient({}), "cuBLASLt, gelu_tanh_gradient");
  EXPECT_EQ(GeluGradient({}, "x86-64-v3"), "not gelu_tanh_gradient on a CPU");
  EXPECT_EQ(GeluGradient({{"bf16", "f32"}}), "not gelu_tanh_gradient of f32");
  EXPECT_EQ(GeluGradient({{"2048", "2052"}}),
            "not gelu_tanh_gradient with 2052 columns, no multiple of 8");
  EXPECT_EQ(GeluGradient({{"2048", "s0"}}),
            "not gelu_tanh_gradient with a number of columns that may change");
  EXPECT_EQ(GeluGradient({{"64", "60"}}),
            "not gelu_tanh_gradient with 60 terms, no multiple of 8");
  EXPECT_EQ(GeluGradient({{"index 2", "index 2 align 2"}}),
            "not gelu_tanh_gradient of an input whose rows may begin between "
            "multiples of 16 bytes");
  EXPECT_EQ(GeluGradient({{"index 0", "index 0 align 2"}}),
            "not gelu_tanh_gradient with a matrix whose rows may begin between "
            "multiples of 16 bytes");
  // The input transposed, and one row of it for all.
  EXPECT_EQ(GeluGradient({{"x : bf16[4096, 2048]", "x : bf16[2048, 4096]"},
                          {"x[i0, i1]", "x[i1, i0]"}}),
            "not gelu_tanh_gradient of an input with gaps between its columns");
  EXPECT_EQ(GeluGradient({{"x[i0, i1]", "x[0, i1]"}}),
            "not gelu_tanh_gradient of an input whose rows overlap");
}

// A product, t2 of `dtype`, behind which `activation` computes c.
std::string Activation(absl::string_view dtype, absl::string_view activation,
                       absl::string_view target) {
  return GroundOf(
      absl::StrReplaceAll(R"(loops @g() {
  in a : DT[64, 32] index 0
  in b : DT[32, 64] index 1
  out y : DT[64, 64]
  product mm [m i0 in 64, n i1 in 64, k i2 in 32] {
    a view a DT [64, 32] strides [32, 1] offset 0 at [i0, i2]
    b view b DT [32, 64] strides [64, 1] offset 0 at [i2, i1]
    c view y DT [64, 64] strides [64, 1] offset 0 at [i0, i1]
    t0 = factor DT number 0
    t1 = factor DT number 1
    t2 = contract DT t0, t1
ACTIVATION  }
  return view y DT [64, 64] strides [64, 1] offset 0
}
)",
                          {{"ACTIVATION", activation}, {"DT", dtype}}),
      target);
}

TEST(LibraryTakes, AnActivationIsRefusedForItsTypeOrForItsNaNs) {
  const std::string relu =
      "    t3 = constant DT 0\n    t4 = maximum DT t2, t3\n    c = t4\n";
  const auto of = [&](absl::string_view dtype, absl::string_view target) {
    return Activation(dtype, absl::StrReplaceAll(relu, {{"DT", dtype}}),
                      target);
  };
  EXPECT_EQ(of("f32", "x86-64-v3"), "oneDNN, relu");
  EXPECT_EQ(of("f32", "sm_90"), "not relu that keeps a NaN");
  EXPECT_EQ(of("i64", "x86-64-v3"), "not relu of i64");
}

// A relu of a convolution with a bias.
std::string Convolution(const Changes& changes) {
  return GroundOf(absl::StrReplaceAll(R"(loops @g() {
  in x : f16[4, 16, 10, 10] strides [1600, 1, 160, 16] index 0
  in w : f16[32, 16, 3, 3] strides [144, 1, 48, 16] index 1
  in b : f16[32] index 2
  out y : f16[4, 32, 8, 8] strides [2048, 1, 256, 32]
  convolution conv [b i0 in 4, g i1 in 1, o i2 in 32, c i3 in 16, y0 i4 in 8, y1 i5 in 8, w0 i6 in 3, w1 i7 in 3] {
    a view x f16 [4, 16, 10, 10] strides [1600, 1, 160, 16] offset 0 at [i0, 16*i1 + i3, i4 + i6, i5 + i7]
    b view w f16 [32, 16, 3, 3] strides [144, 1, 48, 16] offset 0 at [32*i1 + i2, i3, i6, i7]
    c view y f16 [4, 32, 8, 8] strides [2048, 1, 256, 32] offset 0 at [i0, 32*i1 + i2, i4, i5]
    t0 = factor f16 number 0
    t1 = cast f32 t0
    t2 = factor f16 number 1
    t3 = cast f32 t2
    t4 = contract f32 t1, t3
    t5 = load f16 b[i2]
    t6 = cast f32 t5
    t7 = add f32 t4, t6
    t8 = constant f32 0
    t9 = maximum f32 t7, t8
    t10 = cast f16 t9
    c = t10
  }
  return view y f16 [4, 32, 8, 8] strides [2048, 1, 256, 32] offset 0
}
)",
                                      changes),
                  "sm_90");
}

TEST(LibraryTakes, BehindAConvolutionEachRefusalHasItsOwnGround) {
  EXPECT_EQ(Convolution({}), "cuDNN, bias, relu");
  EXPECT_EQ(Convolution({{"maximum f32 t7", "maximum f32 t4"}}),
            "not relu without a bias");
  EXPECT_EQ(Convolution({{"f16", "f32"}}), "not relu of f32");
  EXPECT_EQ(Convolution({{"[2048, 1, 256, 32]", "[2048, 64, 8, 1]"}}),
            "not relu of images that are not channels-last");
  EXPECT_EQ(Convolution({{"o i2 in 32", "o i2 in 36"}}),
            "not relu with 36 channels, no multiple of 8");
  EXPECT_EQ(
      Convolution({{"g i1 in 1", "g i1 in 2"}, {"b[i2]", "b[32*i1 + i2]"}}),
      "not relu in groups of channels");
}

}  // namespace
}  // namespace kiln
