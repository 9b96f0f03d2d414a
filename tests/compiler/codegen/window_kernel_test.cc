// Kernels of depthwise convolutions and their gradients, in every form that the
// schedule may give them: on a GPU, or emulated.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "compiler/graph/graph_text.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/schedule/jam_windows.h"
#include "compiler/schedule/loop_order.h"
#include "compiler/schedule/window_loops.h"
#include "tests/support/kernel_tolerances.h"
#include "tests/support/nest_case.h"

namespace kiln {
namespace {

void CheckKernels(const std::string& text, double tolerance,
                  std::optional<uint32_t> jam_axis = std::nullopt,
                  int64_t count = 2) {
  SCOPED_TRACE(text);
  const auto graph = ParseGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ArtifactOptions options;
  options.layout_optimization = false;
  const auto program = LowerGraph(*graph, options);
  ASSERT_TRUE(program.ok()) << program.status();
  int checked = 0;
  for (const LoopStep& step : program->steps) {
    const auto* c = std::get_if<Contraction>(&step);
    ASSERT_NE(c, nullptr);
    const auto loops = WindowLoopsOf(*c, program->buffers, program->shapes);
    ASSERT_TRUE(loops.has_value());
    NestCase flat;
    flat.buffers = program->buffers;
    for (const Buffer& buffer : loops->buffers) flat.buffers.push_back(buffer);
    flat.kernel.nest = loops->nests.back();
    flat = flat.Flat();
    flat.kernel.nest =
        OrderAxes(flat.kernel.nest, flat.buffers, program->shapes);
    // What is read by neighbours is read once (jam_windows.h).
    if (jam_axis.has_value() && c->written != Contraction::kB)
      flat.kernel.nest =
          JamAxis(flat.kernel.nest, *jam_axis, count, program->shapes);
    flat.CheckVariants(TargetKind::kCuda, tolerance);
    ++checked;
  }
  EXPECT_EQ(checked, 3);
}

// Images of 8 by `edge`, with both gradients.
std::string GraphOf(absl::string_view dtype, int64_t channels, int64_t window,
                    int64_t stride, int64_t edge, bool channels_last) {
  const int64_t padding = window / 2;
  const int64_t rows = (8 + 2 * padding - window) / stride + 1;
  const int64_t columns = (edge + 2 * padding - window) / stride + 1;
  const auto images = [&](int64_t h, int64_t w) {
    std::string type =
        absl::StrCat(dtype, "[2, ", channels, ", ", h, ", ", w, "]");
    if (channels_last)
      absl::StrAppend(&type, " strides [", channels * h * w, ", 1, ",
                      channels * w, ", ", channels, "]");
    return absl::StrCat(type, " align 16");
  };
  const std::string call =
      absl::StrCat("[", stride, ", ", stride, "], [", padding, ", ", padding,
                   "], [1, 1], false, [0, 0], ", channels);
  return absl::StrCat(
      "graph @g() on cuda(%x: ", images(8, edge), ", %w: ", dtype, "[",
      channels, ", 1, ", window, ", ", window,
      "] align 16, %g: ", images(rows, columns),
      ") -> (%y, %dx, %dw) {\n  %y = convolution(%x, %w, none, ", call,
      ")\n  %dx, %dw, %db = convolution_backward(%g, %x, %w, "
      "none, ",
      call, ", [true, true, false])\n}\n");
}

TEST(WindowKernel, OfChannelsSideBySide) {
  CheckKernels(GraphOf("bf16", 16, 3, 2, 9, true), kBF16Unit);
}

// The axis of columns, and that of rows.
TEST(WindowKernel, OfNeighboursTogether) {
  CheckKernels(GraphOf("bf16", 16, 3, 1, 6, true), kBF16Unit, 2);
  CheckKernels(GraphOf("f32", 5, 3, 1, 12, false), kSums, 2);
}

// No column is outside for some places and inside for others.
TEST(WindowKernel, OfWholeRowsTogether) {
  CheckKernels(GraphOf("bf16", 16, 5, 1, 4, true), kBF16Unit, 2, 4);
}

TEST(WindowKernel, OfPixelsSideBySide) {
  CheckKernels(GraphOf("f32", 5, 3, 1, 12, false), kSums);
}

}  // namespace
}  // namespace kiln
