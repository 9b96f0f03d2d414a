#include "compiler/graph/graph_text.h"
#include "compiler/loop/loop_text.h"
#include "compiler/loop/lower_graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Whether the call that a graph lowers to has the attribute.
bool Says(absl::string_view dtype, const ArtifactOptions& options,
          absl::string_view attribute) {
  const std::string d(dtype);
  const auto graph = ParseGraph("graph @g()(%a: " + d + "[4, 8], %b: " + d +
                                "[8, 2]) -> (%y) {\n  %y = mm(%a, %b)\n}");
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto program = LowerGraph(*graph, options);
  EXPECT_TRUE(program.ok()) << program.status();
  return ToText(*program).find(std::string(attribute)) != std::string::npos;
}

TEST(LowerOptions, ASumMayRoundOnlyWhatTheOptionsAllow) {
  EXPECT_FALSE(Says("f32", {}, "allow "));
  EXPECT_FALSE(Says("f16", {}, "allow "));
  EXPECT_TRUE(Says("f32", {.allow_tf32 = true}, "allow tf32"));
  EXPECT_FALSE(Says("f16", {.allow_tf32 = true}, "allow "));
  const ArtifactOptions f16 = {.allow_fp16_reduced_precision = true};
  EXPECT_TRUE(Says("f16", f16, "allow reduced_sums"));
  EXPECT_FALSE(Says("bf16", f16, "allow "));
  const ArtifactOptions bf16 = {.allow_bf16_reduced_precision = true};
  EXPECT_TRUE(Says("bf16", bf16, "allow reduced_sums"));
  EXPECT_FALSE(Says("f32", bf16, "allow "));
}

std::string LoopsOf(absl::string_view text, const ArtifactOptions& options) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto program = LowerGraph(*graph, options);
  return program.ok() ? ToText(*program)
                      : std::string(program.status().message());
}

TEST(LowerOptions, ConvolutionsHaveAWordOfTheirOwnOnRounding) {
  constexpr absl::string_view kGraph = R"(
      graph @g()(%x: f32[1, 4, 8, 8], %w: f32[2, 4, 3, 3]) -> (%y) {
        %y = convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
      })";
  EXPECT_THAT(LoopsOf(kGraph, {.allow_tf32_convolution = true}),
              HasSubstr("allow tf32"));
  EXPECT_THAT(LoopsOf(kGraph, {.allow_tf32 = true}),
              Not(HasSubstr("allow tf32")));
  EXPECT_FALSE(Says("f32", {.allow_tf32_convolution = true}, "allow tf32"));
}

TEST(LowerOptions, AConvolutionOnCudaIsDeterministicWhereThatIsAskedFor) {
  const std::string body =
      R"((%x: f32[1, 4, 8, 8], %w: f32[2, 4, 3, 3]) -> (%y) {
        %y = convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
      })";
  const std::string on_cuda = "graph @g() on cuda" + body;
  EXPECT_THAT(LoopsOf(on_cuda, {}), Not(HasSubstr("deterministic")));
  EXPECT_THAT(LoopsOf(on_cuda, {.deterministic = true}),
              HasSubstr("  deterministic\n"));
  EXPECT_THAT(LoopsOf(on_cuda, {.convolution_deterministic = true}),
              HasSubstr("  deterministic\n"));
  EXPECT_THAT(LoopsOf("graph @g()" + body, {.deterministic = true}),
              Not(HasSubstr("deterministic")));
}

TEST(LowerOptions, ConvolutionsGoChannelsLastWhereTheyMayAndThatIsNotRefused) {
  constexpr absl::string_view kGraph = R"(
      graph @g() on cuda(%x: f32[1, 4, 8, 8], %w: f32[2, 4, 3, 3]) -> (%z) {
        %y = convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
        %z = relu(%y)
      })";
  constexpr absl::string_view kLast =
      "tmp buf4 : f32[1, 2, 6, 6] strides [72, 1, 12, 2]";
  ArtifactOptions options = {.allow_tf32_convolution = true};
  EXPECT_THAT(LoopsOf(kGraph, options), HasSubstr(std::string(kLast)));
  options.layout_optimization = false;
  EXPECT_THAT(LoopsOf(kGraph, options), Not(HasSubstr("strides [72, 1,")));
  EXPECT_THAT(LoopsOf(kGraph, {}), Not(HasSubstr("strides [72, 1,")));
}

TEST(LowerOptions, HalvesAreRoundedAfterEachOperatorWhereThatIsAskedFor) {
  constexpr absl::string_view kGraph = R"(
      graph @g()(%x: bf16[8]) -> (%z) {
        %y = mul.Tensor(%x, %x)
        %z = add.Tensor(%y, %x)
      })";
  EXPECT_THAT(LoopsOf(kGraph, {}), Not(HasSubstr("round_bf16")));
  EXPECT_THAT(LoopsOf(kGraph, {.emulate_precision_casts = true}),
              HasSubstr("round_bf16"));
}

TEST(LowerOptions, AScatterOnCudaHasADeterministicForm) {
  const std::string body = R"((%x: f32[8], %i: i64[4], %v: f32[4]) -> (%y) {
        %y = scatter_add(%x, 0, %i, %v)
      })";
  const ArtifactOptions asked = {.deterministic = true};
  EXPECT_THAT(LoopsOf("graph @g() on cuda" + body, asked), HasSubstr(" max= "));
  EXPECT_THAT(LoopsOf("graph @g() on cuda" + body, {}),
              Not(HasSubstr(" max= ")));
  EXPECT_THAT(LoopsOf("graph @g()" + body, asked), Not(HasSubstr(" max= ")));
}

TEST(LowerOptions, UpdatesThatSetOneNumberHaveNoOrder) {
  const ArtifactOptions asked = {.deterministic = true};
  EXPECT_THAT(LoopsOf(R"(
      graph @g() on cuda(%x: f32[8, 4], %at: i64[8, 2]) -> (%y) {
        %y = scatter.value(%x, 1, %at, 0.5)
      })",
                      asked),
              AllOf(HasSubstr("nest scatter"), Not(HasSubstr(" max= "))));
  EXPECT_THAT(LoopsOf(R"(
      graph @g() on cuda(%x: f32[8], %at: i64[5], %v: f32[]) -> (%y) {
        %y = index_put(%x, [%at], %v)
      })",
                      asked),
              AllOf(HasSubstr("buf3["), Not(HasSubstr(" max= "))));
}

}  // namespace
}  // namespace kiln
