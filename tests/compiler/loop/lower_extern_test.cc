#include "compiler/graph/graph_text.h"
#include "compiler/loop/loop_text.h"
#include "compiler/loop/lower_graph.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

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

TEST(LowerExtern, ACallMayRoundOnlyWhatTheOptionsAllow) {
  EXPECT_FALSE(Says("f32", {}, "allow_"));
  EXPECT_FALSE(Says("f16", {}, "allow_"));
  EXPECT_TRUE(Says("f32", {.allow_tf32 = true}, "allow_tf32=1"));
  EXPECT_FALSE(Says("f16", {.allow_tf32 = true}, "allow_"));
  const ArtifactOptions f16 = {.allow_fp16_reduced_precision = true};
  EXPECT_TRUE(Says("f16", f16, "allow_reduced_sums=1"));
  EXPECT_FALSE(Says("bf16", f16, "allow_"));
  const ArtifactOptions bf16 = {.allow_bf16_reduced_precision = true};
  EXPECT_TRUE(Says("bf16", bf16, "allow_reduced_sums=1"));
  EXPECT_FALSE(Says("f32", bf16, "allow_"));
}

}  // namespace
}  // namespace kiln
