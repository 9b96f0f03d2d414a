#include "compiler/schedule/choose_variant.h"

#include <string>
#include <variant>
#include <vector>

#include "compiler/config/target.h"
#include "compiler/loop/loop_text.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/kernel_plan_verifier.h"
#include "compiler/schedule/plan_buffers.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

KernelPlan Parsed(const std::string& text) {
  auto plan = ParseKernelPlan(text);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : KernelPlan();
}

const PlannedKernel& KernelAt(const KernelPlan& plan, size_t step) {
  return std::get<PlannedKernel>(plan.steps[step]);
}

constexpr char kHeader[] = R"(plan @g(s0 in [1, 100] = 8) {
  in x : f32[70000] index 0
  in w : f32[1000*s0] index 1
  out a : f32[5]
  out b : i64[5]
  out c : f32[70]
  out d : f32[s0]
)";

// Two reductions, of which the second is of pairs.
constexpr char kRows[] =
    R"(  kernel k_rows cuda rows vector 4 lanes 128 rows 2 held 0 hold_costly 0 unroll 4 parts 3 peel 0 stages 0 stretch 0 cluster 1 blocks 0 alone 0 whole 0 floats 512 once 0 branch 0 joined 0 {
    nest sum+argmax [i0 in 5, reduce i1 in 1000] {
      t0 = load f32 x[1000*i0 + i1]
      t1 = reduce f32 t0 by sum
      t2 = reduce f32 t0 by argmax
      t3 = reduce_result i64 t2 number 1
      a[i0] = t1
      b[i0] = t3
    }
  }
)";
constexpr char kColumns[] =
    R"(  kernel k_columns cuda columns vector 4 across 4 down 16 unroll 1 parts 2 peel 0 whole 0 floats 512 {
    nest sum [i0 in 70, reduce i1 in 1000] {
      t0 = load f32 x[i0 + 70*i1]
      t1 = reduce f32 t0 by sum
      c[i0] = t1
    }
  }
)";
constexpr char kOpenColumns[] =
    R"(  kernel k_open cuda columns vector 1 across 32 down 8 unroll 1 parts 4 peel 0 whole 0 floats 512 {
    nest sum [i0 in s0, reduce i1 in 1000] {
      t0 = load f32 w[s0*i1 + i0]
      t1 = reduce f32 t0 by sum
      d[i0] = t1
    }
  }
)";
constexpr char kWhole[] =
    R"(  kernel k_whole cuda rows vector 4 lanes 128 rows 2 held 0 hold_costly 0 unroll 4 parts 1 peel 0 stages 0 stretch 0 cluster 1 blocks 0 alone 0 whole 0 floats 512 once 0 branch 0 joined 0 {
    nest sum [i0 in 5, reduce i1 in 1000] {
      t0 = load f32 x[1000*i0 + i1]
      t1 = reduce f32 t0 by sum
      a[i0] = t1
    }
  }
)";
constexpr char kEnd[] = "  arena 0 bytes, peak live 0\n}\n";

// Where all symbols are at their hints.
int64_t Elements(const KernelPlan& plan, BufferId b) {
  return plan.shapes.Hint(plan.buffers[b].sizes[0]);
}

TEST(AddWorkspaces, AKernelWhoseBlocksShareItsPointsGetsPartialsAndCounters) {
  KernelPlan plan = Parsed(std::string(kHeader) + kRows + kEnd);
  const size_t before = plan.buffers.size();
  AddWorkspaces(plan);
  ASSERT_EQ(plan.buffers.size(), before + 2);
  const Workspace& workspace = KernelAt(plan, 0).workspace;
  ASSERT_LT(workspace.partials, plan.buffers.size());
  ASSERT_LT(workspace.counters, plan.buffers.size());
  EXPECT_EQ(plan.buffers[workspace.partials].kind, BufferKind::kTemporary);
  // 5 rows of 3 parts: 60 bytes of floats, on 16 bytes, and 16 for each pair.
  EXPECT_EQ(Elements(plan, workspace.partials) *
                SizeInBytes(plan.buffers[workspace.partials].dtype),
            64 + 5 * 3 * 16);
  EXPECT_EQ(plan.buffers[workspace.counters].kind, BufferKind::kCounters);
  EXPECT_EQ(plan.buffers[workspace.counters].dtype, DType::kInt32);
  // Two rows a block.
  EXPECT_EQ(Elements(plan, workspace.counters), 3);
  PlanBuffers(plan, 1 << 20);
  EXPECT_EQ(VerifyKernelPlan(plan), absl::OkStatus());
}

TEST(AddWorkspaces, CountersAreSharedAndLongEnoughForEachKernel) {
  KernelPlan plan =
      Parsed(std::string(kHeader) + kRows + kColumns + kOpenColumns + kEnd);
  AddWorkspaces(plan);
  const Workspace& rows = KernelAt(plan, 0).workspace;
  const Workspace& columns = KernelAt(plan, 1).workspace;
  const Workspace& open = KernelAt(plan, 2).workspace;
  EXPECT_EQ(rows.counters, columns.counters);
  EXPECT_EQ(rows.counters, open.counters);
  EXPECT_NE(rows.partials, columns.partials);
  EXPECT_NE(columns.partials, open.partials);
  EXPECT_EQ(Elements(plan, columns.partials), 70 * 2 * 4);
  EXPECT_EQ(Elements(plan, open.partials), 8 * 4 * 4);
  // 70 columns are 18 groups of 4, of which a block takes 4.
  EXPECT_EQ(Elements(plan, columns.counters), 5);
  // Whatever the symbol's value is.
  const auto at = [&](BufferId b, int64_t s0) {
    return plan.buffers[b].sizes[0].Evaluate([&](Var) { return s0; });
  };
  EXPECT_EQ(at(open.counters, 1), 5);
  EXPECT_GE(at(open.partials, 100), 100 * 4 * 4);
  EXPECT_EQ(at(open.partials, 1), 16);
  PlanBuffers(plan, 1 << 20);
  EXPECT_EQ(VerifyKernelPlan(plan), absl::OkStatus());
}

TEST(AddWorkspaces, KernelsOfWholeRowsNeedNone) {
  KernelPlan plan = Parsed(std::string(kHeader) + kWhole + kEnd);
  const std::string before = ToText(plan);
  AddWorkspaces(plan);
  EXPECT_EQ(ToText(plan), before);
  EXPECT_EQ(KernelAt(plan, 0).workspace, Workspace());
}

TEST(ChooseVariant, TakesTheFirstOfTheCheapestAndSaysSoWhenAsked) {
  const KernelPlan plan = Parsed(std::string(kHeader) + kRows + kColumns +
                                 kOpenColumns + kWhole + kEnd);
  for (const char* name : {"sm_90", "x86-64-v3"}) {
    const Target target = *TargetFromName(name);
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      const LoopNest& nest = KernelAt(plan, s).nest;
      const auto quiet = ChooseVariant(nest, plan.buffers, plan.shapes, target,
                                       ChoiceOptions());
      const auto told = ChooseVariant(nest, plan.buffers, plan.shapes, target,
                                      {.explain = true});
      ASSERT_TRUE(quiet.ok()) << quiet.status();
      ASSERT_TRUE(told.ok()) << told.status();
      EXPECT_TRUE(quiet->configs.empty());
      EXPECT_EQ(ToText(quiet->config), ToText(told->config));
      const KernelConfig* best = nullptr;
      for (const VariantChoice::Priced& priced : told->configs) {
        if (priced.config.price.fits &&
            (best == nullptr || priced.config.price.ns < best->price.ns)) {
          best = &priced.config;
        }
      }
      ASSERT_NE(best, nullptr) << ToText(nest, plan.buffers, 0);
      EXPECT_EQ(ToText(told->config), ToText(*best));
      EXPECT_EQ(told->config.price.ns, best->price.ns);
      // One for the target, and for a reduction.
      EXPECT_EQ(ToText(told->config).substr(0, 3),
                target.kind == TargetKind::kCpu ? "cpu" : "cud");
    }
  }
}

}  // namespace
}  // namespace kiln
