#include "compiler/schedule/kernel_plan_verifier.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/inplace_reuse.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

absl::Status Broken(absl::string_view rule, absl::string_view where,
                    absl::string_view what) {
  return absl::InternalError(absl::StrCat(rule, " at ", where, ": ", what));
}

struct Life {
  BufferId buffer = 0;
  int first = -1, last = -1;
  int64_t begin = 0, end = 0;
};

template <typename Visit>
void VisitBuffers(const PlannedStep& step, Visit visit) {
  if (const auto* kernel = std::get_if<PlannedKernel>(&step)) {
    VisitStepBuffers(kernel->nest, visit);
  } else if (const auto* call = std::get_if<ExternCall>(&step)) {
    VisitStepBuffers(*call, visit);
  } else {
    VisitStepBuffers(std::get<Fill>(step), visit);
  }
}

bool TakenInPlace(const KernelPlan& plan, const Life& a, const Life& b) {
  const int step = std::max(a.first, b.first);
  if (step != std::min(a.last, b.last) || a.begin != b.begin) return false;
  const auto* kernel =
      std::get_if<PlannedKernel>(&plan.steps[static_cast<size_t>(step)]);
  if (kernel == nullptr) return false;
  const BufferId read = a.first < b.first ? a.buffer : b.buffer;
  const BufferId write = a.first < b.first ? b.buffer : a.buffer;
  for (const InplacePair& pair : InplacePairs(kernel->nest, plan.buffers)) {
    if (pair.read == read && pair.write == write) return true;
  }
  return false;
}

absl::Status VerifyMemory(const KernelPlan& plan) {
  if (plan.placements.size() != plan.buffers.size()) {
    return Broken("K2", plan.name,
                  absl::StrCat("found ", plan.placements.size(),
                               " placements, due ", plan.buffers.size()));
  }
  std::vector<Life> lives(plan.buffers.size());
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    VisitBuffers(plan.steps[s], [&](BufferId b, bool) {
      if (lives[b].first < 0) lives[b].first = static_cast<int>(s);
      lives[b].last = static_cast<int>(s);
    });
  }
  const int64_t arena = plan.shapes.Hint(plan.arena_bytes);
  std::vector<Life> placed;
  for (BufferId b = 0; b < plan.buffers.size(); ++b) {
    const BufferPlacement& at = plan.placements[b];
    if (plan.buffers[b].kind != BufferKind::kTemporary || lives[b].first < 0) {
      continue;
    }
    Life life = lives[b];
    life.buffer = b;
    life.begin = plan.shapes.Hint(at.offset_bytes);
    life.end = life.begin + plan.shapes.Hint(at.bytes);
    if (!at.in_arena || life.begin < 0 || life.end > arena) {
      return Broken("K2", plan.buffers[b].name, "no place in the arena");
    }
    placed.push_back(life);
  }
  for (size_t i = 0; i < placed.size(); ++i) {
    for (size_t k = i + 1; k < placed.size(); ++k) {
      const Life &a = placed[i], &b = placed[k];
      if (a.first > b.last || b.first > a.last || a.begin >= b.end ||
          b.begin >= a.end || TakenInPlace(plan, a, b)) {
        continue;
      }
      return Broken("K3", plan.buffers[a.buffer].name,
                    absl::StrCat("overlaps ", plan.buffers[b.buffer].name));
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyTiling(const PlannedKernel& kernel) {
  const KernelTiling& tiling = kernel.tiling;
  const int width = tiling.vector_width;
  if (width < 1 || (width & (width - 1)) != 0 || tiling.threads < 1 ||
      tiling.rows_per_block < 1 || tiling.elements_per_thread < 1 ||
      (tiling.tile_axis >= 0 &&
       tiling.tile_axis + 1 >= static_cast<int>(kernel.nest.axes.size()))) {
    return Broken("K5", kernel.label, "numbers out of range");
  }
  const bool reduces = HasReduction(kernel.nest);
  const bool for_points = tiling.mapping == Mapping::kPointwise ||
                          tiling.mapping == Mapping::kTile2d;
  const bool for_reductions =
      tiling.mapping == Mapping::kRow || tiling.mapping == Mapping::kColumn;
  if ((reduces && for_points) || (!reduces && for_reductions)) {
    return Broken("K6", kernel.label,
                  reduces ? "a reduction mapped as points"
                          : "points mapped as a reduction");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyKernelPlan(const KernelPlan& plan) {
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.sizes.size() != 1 || buffer.strides.size() != 1 ||
        !buffer.strides[0].Is(1)) {
      return Broken("K1", buffer.name, "not flat");
    }
  }
  RETURN_IF_ERROR(VerifyMemory(plan));
  absl::flat_hash_set<absl::string_view> labels;
  for (const PlannedStep& step : plan.steps) {
    const auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr) continue;
    if (!labels.insert(kernel->label).second) {
      return Broken("K4", kernel->label, "twice");
    }
    RETURN_IF_ERROR(VerifyTiling(*kernel));
    RETURN_IF_ERROR(VerifyNest(kernel->nest, plan.buffers, plan.shapes));
  }
  return absl::OkStatus();
}

}  // namespace kiln
