// Products in parts, on longer rows and on copies, give what the whole gave.

#include "compiler/schedule/align_contractions.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/graph/graph_text.h"
#include "compiler/loop/loop_text.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/loop/lower_graph.h"
#include "gtest/gtest.h"
#include "tests/compiler/schedule/plan_check.h"
#include "tests/support/loop_interpreter.h"

namespace kiln {
namespace {

// A chip so slow that all is worth it.
Target Slow() {
  Target target = *TargetFromName("sm_90");
  target.cycles_per_ns = 1e-9;
  return target;
}

// The same with memory for which a copy is as much as a product.
Target SlowMemory() {
  Target target = Slow();
  target.memory_bytes_per_ns = 1e-4;
  return target;
}

struct Aligned {
  LoopProgram program;
  AlignedCounts counts;
};

// Checked against the graph's meaning.
Aligned AlignedOf(absl::string_view text, const Target& target = Slow(),
                  const AlignOptions& options = {.widens = false}) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  auto program = LowerGraph(*graph, {});
  EXPECT_TRUE(program.ok()) << program.status();
  Aligned aligned{*std::move(program)};
  aligned.counts = AlignContractions(aligned.program, target, options);
  const std::string loops = ToText(aligned.program);
  EXPECT_EQ(VerifyLoops(aligned.program), absl::OkStatus()) << loops;
  const std::vector<RefValue> inputs = RandomInputs(*graph);
  const auto due = RunReference(*graph, inputs);
  EXPECT_TRUE(due.ok()) << due.status();
  const auto got = RunLoops(aligned.program, graph->constants, inputs);
  EXPECT_TRUE(got.ok()) << got.status() << loops;
  if (!got.ok()) return aligned;
  for (size_t k = 0; k < due->outputs.size(); ++k)
    ExpectClose(got->outputs[k], due->outputs[k], ToleranceOf(*graph), loops);
  return aligned;
}

// The contractions among the steps, and the nests.
std::pair<int, int> StepsOf(const LoopProgram& program) {
  std::pair<int, int> steps;
  for (const LoopStep& step : program.steps) {
    steps.first += std::holds_alternative<Contraction>(step) ? 1 : 0;
    steps.second += std::holds_alternative<LoopNest>(step) ? 1 : 0;
  }
  return steps;
}

TEST(AlignContractions, PeelsEachAxis) {
  // Dense rows of 21, which are copied to and from.
  const Aligned columns = AlignedOf(R"(
      graph @n() on cuda(%a: bf16[16, 24] align 16, %b: bf16[24, 21])
          -> (%y) {
        %y = mm(%a, %b)
      })");
  EXPECT_EQ(columns.counts.products, 1);
  EXPECT_EQ(StepsOf(columns.program), std::make_pair(2, 2));
  const Aligned rows = AlignedOf(R"(
      graph @m() on cuda(%a: bf16[24, 21], %b: bf16[24, 16] align 16) -> (%y) {
        %t = t(%a)
        %y = mm(%t, %b)
      })");
  EXPECT_EQ(StepsOf(rows.program), std::make_pair(2, 1));
  const Aligned sum = AlignedOf(R"(
      graph @k() on cuda(%a: bf16[8, 523], %b: bf16[523, 16] align 16)
          -> (%y) {
        %y = mm(%a, %b)
      })");
  EXPECT_EQ(StepsOf(sum.program), std::make_pair(2, 1));
  const Aligned all = AlignedOf(R"(
      graph @all() on cuda(%a: f16[2, 523, 17], %b: f16[2, 523, 19]) -> (%y) {
        %t = permute(%a, [0, 2, 1])
        %y = bmm(%t, %b)
      })");
  EXPECT_EQ(StepsOf(all.program), std::make_pair(3, 3));
}

// Where copies are due anyway, or cost less than a part that is peeled, they are of
// whole vectors. What lies behind a sum's terms must be zero.
TEST(AlignContractions, CopiesAreOfWholeVectors) {
  const auto widened = [](absl::string_view text) {
    return AlignedOf(text, Slow(), {});
  };
  const Aligned columns = widened(R"(
      graph @n() on cuda(%a: bf16[16, 24] align 16, %b: bf16[24, 21])
          -> (%y) {
        %y = mm(%a, %b)
      })");
  EXPECT_EQ(StepsOf(columns.program), std::make_pair(1, 2));
  const Aligned rows = widened(R"(
      graph @m() on cuda(%a: bf16[24, 21], %b: bf16[24, 16] align 16) -> (%y) {
        %t = t(%a)
        %y = mm(%t, %b)
      })");
  EXPECT_EQ(StepsOf(rows.program), std::make_pair(1, 2));
  // Both factors, and zeros in both; a sum of any length.
  for (const int terms : {29, 523}) {
    const Aligned sum = widened(
        absl::StrCat("graph @k() on cuda(%a: bf16[8, ", terms, "], %b: bf16[",
                     terms, ", 16] align 16) -> (%y) {\n  %y = mm(%a, %b)\n}"));
    EXPECT_EQ(StepsOf(sum.program), std::make_pair(1, 4)) << terms;
  }
  const Aligned all = widened(R"(
      graph @all() on cuda(%a: f16[2, 523, 17], %b: f16[2, 523, 19]) -> (%y) {
        %t = permute(%a, [0, 2, 1])
        %y = bmm(%t, %b)
      })");
  EXPECT_EQ(StepsOf(all.program), std::make_pair(1, 3));
  // A bias has no more columns: they are peeled.
  const Aligned biased = widened(R"(
      graph @g() on cuda(%a: bf16[16, 24] align 16, %b: bf16[24, 21],
                         %c: bf16[21]) -> (%y) {
        %y = addmm(%c, %a, %b)
      })");
  EXPECT_EQ(StepsOf(biased.program), std::make_pair(2, 2));
  // A copy that two products read at different widths is two.
  const Aligned both = widened(R"(
      graph @g() on cuda(%a: bf16[16, 21], %b: bf16[16, 24] align 16,
                         %c: bf16[21, 24] align 16) -> (%x, %y) {
        %t = t(%a)
        %x = mm(%t, %b)
        %y = mm(%a, %c)
      })");
  EXPECT_EQ(both.counts.products, 2);
}

// Of a result that is seen, whose rows begin at eight places of a vector: the products
// write to it, and edges alone are copied.
TEST(AlignContractions, ALargeResultOfOddRowsIsNotCopied) {
  const Aligned odd = AlignedOf(R"(
      graph @odd() on cuda(%a: bf16[64, 24] align 16, %b: bf16[253, 24] align 16)
          -> (%y) {
        %t = t(%b)
        %y = mm(%a, %t)
      })",
                                SlowMemory());
  EXPECT_EQ(odd.counts.products, 1);
  EXPECT_EQ(StepsOf(odd.program), std::make_pair(10, 2)) << ToText(odd.program);
  // Rows that are even halves of a vector begin at two places; a number of rows that
  // is odd, and a result that is read inside too.
  const Aligned even = AlignedOf(R"(
      graph @even() on cuda(%a: bf16[63, 24] align 16, %b: bf16[252, 24] align 16)
          -> (%y, %z) {
        %t = t(%b)
        %y = mm(%a, %t)
        %z = sum.dim_IntList(%y, [1])
      })",
                                 SlowMemory());
  EXPECT_EQ(StepsOf(even.program), std::make_pair(4, 3))
      << ToText(even.program);
  // Factors with rows along the result's are copied with rows along the sum.
  const Aligned turned = AlignedOf(R"(
      graph @turned() on cuda(%a: bf16[64, 24] align 16, %b: bf16[24, 253])
          -> (%y) {
        %y = mm(%a, %b)
      })",
                                   SlowMemory());
  EXPECT_EQ(StepsOf(turned.program), std::make_pair(10, 3))
      << ToText(turned.program);
  // One on aligned rows too, since each product begins at another column.
  const Aligned both = AlignedOf(R"(
      graph @both() on cuda(%a: bf16[24, 64] align 16,
                            %b: bf16[24, 253] strides [256, 1] align 16)
          -> (%y) {
        %t = t(%a)
        %y = mm(%t, %b)
      })",
                                 SlowMemory());
  EXPECT_EQ(StepsOf(both.program), std::make_pair(10, 4))
      << ToText(both.program);
}

TEST(AlignContractions, RowsThatNobodySeesGetALongerStride) {
  const Aligned hidden = AlignedOf(R"(
      graph @g() on cuda(%a: bf16[16, 24] align 16, %w: bf16[21, 24] align 16,
                         %c: bf16[21], %g: bf16[2, 8, 21])
          -> (%y, %da, %dw) {
        %t = t(%w)
        %l = addmm(%c, %a, %t)
        %v = view(%l, [2, 8, 21])
        %y = mul.Tensor(%v, 2)
        %d = exp(%g)
        %dl = view(%d, [16, 21])
        %da = mm(%a, %t)
        %dt = t(%dl)
        %dw = mm(%dt, %a)
      })");
  EXPECT_EQ(hidden.counts.products, 3);
  EXPECT_EQ(hidden.counts.rows, 2);
  // One copy: %da's.
  EXPECT_EQ(StepsOf(hidden.program), std::make_pair(6, 3));
}

TEST(AlignContractions, OneCopyServesAllWhoReadIt) {
  const Aligned both = AlignedOf(R"(
      graph @g() on cuda(%a: bf16[16, 21], %b: bf16[16, 24] align 16,
                         %c: bf16[16, 32] align 16) -> (%x, %y) {
        %t = t(%a)
        %x = mm(%t, %b)
        %y = mm(%t, %c)
      })");
  EXPECT_EQ(both.counts.products, 2);
  EXPECT_EQ(StepsOf(both.program), std::make_pair(4, 1));
  // As it is and transposed, as a backward reads a gradient; of batches too.
  const Aligned gradient = AlignedOf(R"(
      graph @g() on cuda(%dy: bf16[16, 523], %x: bf16[16, 24] align 16,
                         %w: bf16[523, 24] align 16) -> (%dx, %dw) {
        %dx = mm(%dy, %w)
        %t = t(%dy)
        %dw = mm(%t, %x)
      })");
  EXPECT_EQ(gradient.counts.products, 2);
  EXPECT_EQ(StepsOf(gradient.program), std::make_pair(4, 1));
  const Aligned batches = AlignedOf(R"(
      graph @g() on cuda(%dy: bf16[2, 16, 523], %x: bf16[2, 16, 24] align 16,
                         %w: bf16[2, 523, 24] align 16) -> (%dx, %dw) {
        %dx = bmm(%dy, %w)
        %t = permute(%dy, [0, 2, 1])
        %dw = bmm(%t, %x)
      })");
  EXPECT_EQ(StepsOf(batches.program), std::make_pair(4, 1));
}

TEST(AlignContractions, WhatIsKeptOnLongerRowsIsNotCopied) {
  const Aligned kept = AlignedOf(R"(
      graph @g() on cuda(%a: bf16[16, 24] align 16, %b: bf16[21, 24] align 16)
          -> (%kept) {
        %t = t(%b)
        %y = mm(%a, %t)
        %kept = prims.copy_strided(%y, [24, 1])
      })");
  EXPECT_EQ(StepsOf(kept.program), std::make_pair(2, 0));
  // On its way it lies as anything else.
  const Aligned within = AlignedOf(R"(
      graph @g() on cuda(%a: bf16[16, 24] align 16, %b: bf16[24, 21])
          -> (%y) {
        %c = prims.copy_strided(%b, [1, 30])
        %y = mm(%a, %c)
      })");
  EXPECT_EQ(StepsOf(within.program), std::make_pair(2, 2));
  const Aligned read = AlignedOf(R"(
      graph @g() on cuda(%kept: bf16[16, 523] strides [528, 1] align 16,
                         %b: bf16[523, 24] align 16) -> (%y) {
        %y = mm(%kept, %b)
      })");
  EXPECT_EQ(StepsOf(read.program), std::make_pair(2, 0));
}

TEST(AlignContractions, HowManyRowsThereAreMayBeASymbol) {
  const Aligned hidden = AlignedOf(R"(
      graph @g(N in [2, 64] = 16) on cuda(%a: bf16[N, 24] align 16,
                                          %w: bf16[523, 24] align 16)
          -> (%r, %da, %dw) {
        %t = t(%w)
        %y = mm(%a, %t)
        %r = amax(%y, [1])
        %dy = cos(%y)
        %da = mm(%dy, %w)
        %dt = t(%dy)
        %dw = mm(%dt, %a)
      })");
  EXPECT_EQ(hidden.counts.products, 3);
  EXPECT_EQ(hidden.counts.rows, 2);
  EXPECT_EQ(StepsOf(hidden.program), std::make_pair(6, 2));
  const Aligned seen = AlignedOf(R"(
      graph @g(N in [2, 64] = 16) on cuda(%a: bf16[N, 24] align 16,
                                          %w: bf16[24, 21]) -> (%y) {
        %y = mm(%a, %w)
      })");
  EXPECT_EQ(seen.counts.products, 1);
  EXPECT_EQ(StepsOf(seen.program), std::make_pair(2, 2));
}

TEST(AlignContractions, LeavesWhatHasNothingToWin) {
  for (
      const absl::string_view form :
      {// Aligned; not even one vector; a sum that its last part would be seen in.
       "%a: bf16[16, 24] align 16, %b: bf16[24, 32] align 16",
       "%a: bf16[16, 24] align 16, %b: bf16[24, 5]",
       "%a: bf16[16, 29], %b: bf16[29, 32] align 16",
       // No tensor cores.
       "%a: f32[16, 24], %b: f32[24, 21]"}) {
    const Aligned none = AlignedOf(absl::StrCat(
        "graph @g() on cuda(", form, ") -> (%y) {\n  %y = mm(%a, %b)\n}"));
    EXPECT_EQ(none.counts.products, 0) << form;
  }
  const Aligned unknown = AlignedOf(R"(
      graph @g(N in [2, 64] = 21) on cuda(%a: bf16[16, 24], %b: bf16[24, N])
          -> (%y) {
        %y = mm(%a, %b)
      })");
  EXPECT_EQ(unknown.counts.products, 0);
}

TEST(AlignContractions, AnEpilogueGoesWithItsPart) {
  const Aligned scaled = AlignedOf(R"(
      graph @g() on cuda(%a: bf16[16, 24] align 16, %b: bf16[24, 21],
                         %c: bf16[16, 21]) -> (%y) {
        %y = addmm(%c, %a, %b, 0.5, 2)
      })");
  EXPECT_EQ(StepsOf(scaled.program), std::make_pair(2, 2));
}

}  // namespace
}  // namespace kiln
