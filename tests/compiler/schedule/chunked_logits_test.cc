// A linear and its cross-entropy in chunks of rows, forward and gradients, as
// client/python's fuse_linear_cross_entropy writes them: the plan for a GPU holds
// one chunk of logits, and never two.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/config/target.h"
#include "compiler/pass/pass_runner.h"
#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "gtest/gtest.h"
#include "tests/compiler/schedule/plan_check.h"

namespace kiln {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// `rows` of `hidden` numbers a chunk; results are the loss and the gradients of
// x, weight and bias.
std::string Graph(int chunks, int rows, int hidden, int classes) {
  std::string text = absl::StrCat(
      "graph @loss() on cuda(%w: bf16[", classes, ", ", hidden, "] align 16, ",
      "%b: bf16[", classes, "] align 16, %x: bf16[", chunks * rows, ", ",
      hidden, "] align 16, %y: i64[", chunks * rows, "] align 16) -> (%loss_",
      chunks - 1, ", %dw_", chunks - 1, ", %db_", chunks - 1, ", %dx) {\n",
      "  %classes = arange(", classes, ", device=cuda)\n",
      "  %columns = unsqueeze(%classes, 0)\n  %wt = t(%w)\n",
      "  %none = scalar_tensor(0, dtype=i64, device=cuda)\n",
      "  %zero = scalar_tensor(0.0, dtype=f32, device=cuda)\n",
      "  %least = scalar_tensor(-inf, dtype=f32, device=cuda)\n");
  std::vector<std::string> parts;
  for (int c = 0; c < chunks; ++c) {
    const auto add = [&](absl::string_view line) {
      // "NAME#" is of this chunk.
      absl::StrAppend(&text, "  ",
                      absl::StrReplaceAll(line, {{"#", absl::StrCat("_", c)}}),
                      "\n");
    };
    const std::string from_to = absl::StrCat(c * rows, ", ", (c + 1) * rows);
    add(absl::StrCat("%y# = slice.Tensor(%y, 0, ", from_to, ")"));
    add("%kept# = ne.Scalar(%y#, -100)");
    add("%safe# = where.self(%kept#, %y#, %none)");
    add("%class# = gather(%classes, 0, %safe#)");
    add("%place# = unsqueeze(%class#, 1)");
    add("%is# = eq.Tensor(%columns, %place#)");
    add(absl::StrCat("%x# = slice.Tensor(%x, 0, ", from_to, ")"));
    add("%half# = addmm(%b, %x#, %wt)");
    add("%logits# = _to_copy(%half#, dtype=f32)");
    add("%found# = where.self(%is#, %logits#, %least)");
    add("%picked# = amax(%found#, [1], true)");
    add("%most# = amax(%logits#, [1], true)");
    add("%less# = sub.Tensor(%logits#, %most#)");
    add("%exp# = exp(%less#)");
    add("%sum# = sum.dim_IntList(%exp#, [1], true)");
    add("%log# = log(%sum#)");
    add("%normal# = add.Tensor(%most#, %log#)");
    add("%logp# = sub.Tensor(%logits#, %normal#)");
    add("%p# = exp(%logp#)");
    add("%p1# = sub.Tensor(%p#, 1.0)");
    add("%pg# = where.self(%is#, %p1#, %p#)");
    add("%keeps# = unsqueeze(%kept#, 1)");
    add("%wide# = where.self(%keeps#, %pg#, %zero)");
    add("%g# = _to_copy(%wide#, dtype=bf16)");
    add("%dx# = mm(%g#, %w)");
    add("%gt# = t(%g#)");
    add("%dwhalf# = mm(%gt#, %x#)");
    add("%dwpart# = _to_copy(%dwhalf#, dtype=f32)");
    add("%gwide# = _to_copy(%g#, dtype=f32)");
    add("%dbpart# = sum.dim_IntList(%gwide#, [0])");
    add("%off# = sub.Tensor(%normal#, %picked#)");
    add("%row# = squeeze.dim(%off#, 1)");
    add("%counted# = where.self(%kept#, %row#, %zero)");
    add("%losspart# = sum(%counted#)");
    for (const char* name : {"%loss", "%dw", "%db"}) {
      const std::string part = absl::StrCat(name, "part_", c);
      add(c == 0 ? absl::StrCat(name, "# = mul.Tensor(", part, ", 1)")
                 : absl::StrCat(name, "# = add.Tensor(", name, "_", c - 1, ", ",
                                part, ")"));
    }
    parts.push_back(absl::StrCat("%dx_", c));
  }
  return absl::StrCat(text, "  %dx = cat([", absl::StrJoin(parts, ", "),
                      "])\n}\n");
}

// The most that temporaries with memory of their own, and results, take at once.
int64_t PeakBytes(const KernelPlan& plan) {
  // By the number of what shares memory; results have numbers below 0.
  std::map<int64_t, std::pair<size_t, size_t>> life;
  std::map<int64_t, int64_t> bytes;
  const auto note = [&](BufferId b, size_t step) {
    const Buffer& buffer = plan.buffers[b];
    const BufferPlacement& place = plan.placements[b];
    if (buffer.kind == BufferKind::kInput || place.in_arena) return;
    const int64_t key = place.own >= 0 ? place.own : -1 - int64_t{b};
    life.try_emplace(key, step, step).first->second.second = step;
    bytes[key] = plan.shapes.Hint(buffer.sizes[0]) * SizeInBytes(buffer.dtype);
  };
  for (size_t s = 0; s < plan.steps.size(); ++s)
    VisitStepBuffers(plan.steps[s], [&](BufferId b, bool) { note(b, s); });
  for (const ProgramOutput& output : plan.outputs) {
    if (const auto* view = std::get_if<View>(&output.what))
      note(view->buffer, plan.steps.size());
  }
  int64_t peak = 0;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    int64_t here = plan.peak_live_bytes;
    for (const auto& [key, when] : life)
      if (when.first <= s && s <= when.second) here += bytes[key];
    peak = std::max(peak, here);
  }
  return peak;
}

PassEnv OnHopper() { return {*TargetFromName("sm_90"), {}}; }

TEST(ChunkedLogits, OneChunkIsThereAtATime) {
  // 98 MiB of logits a chunk; 1.5 of x, and as many of its gradient; 73.6 MiB
  // a sum of the weight's.
  const KernelPlan plan = PlanWith(Graph(8, 1024, 768, 50257), OnHopper());
  const int64_t chunk = 1024 * 50304 * 2, weight = 50257 * 768 * 4;
  const int64_t peak = PeakBytes(plan);
  EXPECT_GT(peak, chunk);
  // The sum so far, the next one and a part in a half type.
  EXPECT_LT(peak, chunk + 3 * weight + 32 * kMiB) << ToText(plan);
}

TEST(ChunkedLogits, MoreChunksTakeNoMore) {
  const auto peak = [](int chunks) {
    return PeakBytes(PlanWith(Graph(chunks, 1024, 768, 50257), OnHopper()));
  };
  // But for the rows' gradient, 1.5 MiB a chunk, and little sums.
  EXPECT_LT(peak(16), peak(8) + 16 * kMiB);
}

// The gradient takes the logits' place: a chunk is one memory.
TEST(ChunkedLogits, TheGradientTakesTheLogitsPlace) {
  const KernelPlan plan = PlanWith(Graph(4, 1024, 768, 50257), OnHopper());
  std::map<int, int> sharing;  // of large buffers
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const BufferPlacement& place = plan.placements[b];
    if (place.own >= 0 && plan.shapes.Hint(place.bytes) > 90 * kMiB)
      ++sharing[place.own];
  }
  EXPECT_EQ(sharing.size(), 4) << ToText(plan);
  for (const auto& [own, buffers] : sharing) EXPECT_EQ(buffers, 2) << own;
}

TEST(ChunkedLogits, MeansTheSame) { ExpectMeansTheSame(Graph(3, 8, 12, 21)); }

}  // namespace
}  // namespace kiln
