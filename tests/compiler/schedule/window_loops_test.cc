// Depthwise convolutions and their gradients as loops of ours: what they compute,
// and which of them there are.

#include "compiler/schedule/window_loops.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/graph/graph_text.h"
#include "compiler/loop/loop_text.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/reference/run_reference.h"
#include "gtest/gtest.h"
#include "tests/compiler/schedule/plan_check.h"
#include "tests/support/loop_interpreter.h"

namespace kiln {
namespace {

// A convolution of square images, or of rows or boxes.
struct Shape {
  int64_t images, channels, outputs, edge, window, stride, padding, dilation;
  const char* dtype = "bf16";
  bool channels_last = false;
  int spatial = 2;
  std::string batch = "";  // a symbol
};

std::string Sizes(const Shape& s, absl::string_view images, int64_t channels,
                  int64_t edge) {
  std::string text = absl::StrCat(s.dtype, "[", images, ", ", channels);
  for (int d = 0; d < s.spatial; ++d) absl::StrAppend(&text, ", ", edge);
  absl::StrAppend(&text, "]");
  if (!s.channels_last) return text;
  std::vector<int64_t> strides(2 + s.spatial, 1);
  int64_t stride = channels;
  for (size_t d = strides.size(); d-- > 2; stride *= edge) strides[d] = stride;
  strides[0] = stride;
  return absl::StrCat(text, " strides [", absl::StrJoin(strides, ", "), "]");
}

std::string Each(const Shape& s, int64_t number) {
  return absl::StrCat(
      "[", absl::StrJoin(std::vector<int64_t>(s.spatial, number), ", "), "]");
}

// The convolution, and both gradients.
std::string GraphOf(const Shape& s) {
  const int64_t reach = (s.window - 1) * s.dilation + 1;
  const int64_t places = (s.edge + 2 * s.padding - reach) / s.stride + 1;
  const int64_t filters = s.channels * s.outputs;
  const std::string images = s.batch.empty() ? absl::StrCat(s.images) : "N";
  Shape weights = s;
  weights.channels_last = false;
  const std::string call = absl::StrCat(
      Each(s, s.stride), ", ", Each(s, s.padding), ", ", Each(s, s.dilation),
      ", false, ", Each(s, 0), ", ", s.channels);
  return absl::StrCat(
      "graph @g(", s.batch,
      ") on cuda(%x: ", Sizes(s, images, s.channels, s.edge),
      ", %w: ", Sizes(weights, absl::StrCat(filters), 1, s.window),
      ", %g: ", Sizes(s, images, filters, places), ") -> (%y, %dx, %dw) {\n",
      "  %y = convolution(%x, %w, none, ", call, ")\n",
      "  %dx, %dw, %db = convolution_backward(%g, %x, %w, none, ", call,
      ", [true, true, false])\n}\n");
}

LoopProgram LoopsOf(const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status() << text;
  if (!graph.ok()) return {};
  ArtifactOptions options;
  options.layout_optimization = false;
  auto program = LowerGraph(*graph, options);
  EXPECT_TRUE(program.ok()) << program.status() << text;
  return program.ok() ? *std::move(program) : LoopProgram();
}

// How many of the program's contractions became loops.
int TakeLoops(LoopProgram& program) {
  int taken = 0;
  std::vector<LoopStep> steps;
  for (LoopStep& step : program.steps) {
    const auto* c = std::get_if<Contraction>(&step);
    std::optional<WindowLoops> loops;
    if (c != nullptr)
      loops = WindowLoopsOf(*c, program.buffers, program.shapes);
    if (!loops.has_value()) {
      steps.push_back(std::move(step));
      continue;
    }
    ++taken;
    for (LoopNest& nest : loops->nests) steps.push_back(std::move(nest));
    for (Buffer& buffer : loops->buffers) program.buffers.push_back(buffer);
  }
  program.steps = std::move(steps);
  return taken;
}

void ExpectLoops(const Shape& shape, int due_loops = 3) {
  const std::string text = GraphOf(shape);
  SCOPED_TRACE(text);
  LoopProgram program = LoopsOf(text);
  EXPECT_EQ(TakeLoops(program), due_loops);
  ASSERT_EQ(VerifyLoops(program), absl::OkStatus()) << ToText(program);
  const auto graph = ParseGraph(text);
  const std::vector<RefValue> inputs = RandomInputs(*graph);
  const auto due = RunReference(*graph, inputs);
  ASSERT_TRUE(due.ok()) << due.status();
  const auto found = RunLoops(program, {}, inputs);
  ASSERT_TRUE(found.ok()) << found.status() << ToText(program);
  for (size_t k = 0; k < due->outputs.size(); ++k)
    ExpectClose(found->outputs[k], due->outputs[k], ToleranceOf(*graph),
                absl::StrCat("output ", k, "\n", ToText(program)));
}

TEST(WindowLoops, AreTheConvolutionAndItsGradients) {
  for (const bool channels_last : {false, true}) {
    for (const int64_t window : {1, 2, 3, 5}) {
      for (const int64_t stride : {1, 2, 3}) {
        for (const int64_t padding : {int64_t{0}, window / 2, window}) {
          ExpectLoops(
              {2, 3, 1, 7, window, stride, padding, 1, "f32", channels_last});
        }
      }
    }
    ExpectLoops({1, 8, 1, 9, 7, 1, 3, 1, "bf16", channels_last});
    ExpectLoops({1, 2, 1, 9, 9, 1, 4, 1, "f16", channels_last});
  }
}

TEST(WindowLoops, MayHaveManyResultsForAChannel) {
  for (const bool channels_last : {false, true}) {
    ExpectLoops({2, 3, 2, 6, 3, 1, 1, 1, "f32", channels_last});
    ExpectLoops({2, 4, 3, 7, 3, 2, 1, 1, "bf16", channels_last});
  }
}

TEST(WindowLoops, MayBeDilated) {
  for (const bool channels_last : {false, true})
    ExpectLoops({2, 3, 1, 9, 3, 1, 2, 2, "f32", channels_last});
  // The gradient of the image has none of both.
  ExpectLoops({2, 3, 1, 9, 3, 2, 2, 2, "f32"}, 2);
}

TEST(WindowLoops, MayHaveOneOrThreeDimensions) {
  ExpectLoops({2, 5, 1, 11, 4, 1, 3, 1, "f32", false, 1});
  ExpectLoops({1, 3, 1, 5, 3, 2, 1, 1, "f32", false, 3});
  ExpectLoops({1, 3, 1, 4, 3, 1, 1, 1, "f32", true, 3});
}

TEST(WindowLoops, AnyNumberOfImages) {
  ExpectLoops({2, 3, 1, 5, 3, 1, 1, 1, "f32", false, 2, "N in [1, 64] = 2"});
  ExpectLoops({0, 3, 1, 5, 3, 1, 1, 1, "f32", true});
}

TEST(WindowLoops, AreOfOneChannelAGroupAndOfSmallWindows) {
  // 10 x 10 cells; and 3 x 7 x 7 for the gradient of a channel, which are left too
  // long in every part.
  ExpectLoops({1, 3, 1, 11, 10, 1, 0, 1, "f32"}, 0);
  ExpectLoops({1, 2, 3, 8, 7, 1, 0, 1, "f32"}, 0);
  LoopProgram grouped = LoopsOf(R"(
      graph @g() on cuda(%x: f32[2, 8, 6, 6], %w: f32[8, 2, 3, 3]) -> (%y) {
        %y = convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 4)
      })");
  EXPECT_EQ(TakeLoops(grouped), 0);
  LoopProgram dense = LoopsOf(R"(
      graph @g() on cuda(%x: f32[2, 1, 6, 6], %w: f32[8, 1, 3, 3]) -> (%y) {
        %y = convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
      })");
  EXPECT_EQ(TakeLoops(dense), 0);
}

}  // namespace
}  // namespace kiln
