#include "compiler/schedule/kernel_plan_verifier.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "compiler/config/target.h"
#include "compiler/loop/attention_verifier.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/schedule/column_sums.h"
#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/inplace_reuse.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/matrix_product.h"
#include "compiler/schedule/nest_facts.h"
#include "compiler/schedule/tile_walks.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

// Blocks of a cluster on every chip that has clusters. Source: CUDA C++ Programming
// Guide, "Thread Block Clusters".
constexpr int kMostClustered = 8;

absl::Status Broken(absl::string_view rule, absl::string_view where,
                    absl::string_view what) {
  return absl::InternalError(absl::StrCat(rule, " at ", where, ": ", what));
}

struct Life {
  BufferId buffer = 0;
  int first = -1, last = -1;
  int64_t begin = 0, end = 0;
};

bool TakenInPlace(const KernelPlan& plan, const Life& a, const Life& b) {
  const int step = std::max(a.first, b.first);
  if (step != std::min(a.last, b.last) || a.begin != b.begin) return false;
  const absl::Span<const PlannedKernel> kernels =
      KernelsOf(plan.steps[static_cast<size_t>(step)]);
  if (kernels.empty()) return false;
  const BufferId read = a.first < b.first ? a.buffer : b.buffer;
  const BufferId write = a.first < b.first ? b.buffer : a.buffer;
  for (const InplacePair& pair : InplacePairs(kernels, plan.buffers)) {
    if (pair.read == read && pair.write == write) return true;
  }
  return false;
}

absl::Status VerifyMemory(const KernelPlan& plan) {
  if (plan.placements.size() != plan.buffers.size()) {
    return Broken("K2", plan.name,
                  absl::StrCat("found ", plan.placements.size(),
                               " placements, expected ", plan.buffers.size()));
  }
  std::vector<Life> lives(plan.buffers.size());
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    VisitStepBuffers(plan.steps[s], [&](BufferId b, bool) {
      if (lives[b].first < 0) lives[b].first = static_cast<int>(s);
      lives[b].last = static_cast<int>(s);
    });
  }
  const int64_t arena = plan.shapes.Hint(plan.arena_bytes);
  std::vector<Life> placed;
  for (BufferId b = 0; b < plan.buffers.size(); ++b) {
    const BufferPlacement& at = plan.placements[b];
    const bool taken =
        plan.buffers[b].kind == BufferKind::kInput && at.own >= 0;
    if (taken && !MayBeTaken(plan.buffers[b])) {
      return Broken("K2", plan.buffers[b].name, "an input that is not donated");
    }
    if ((plan.buffers[b].kind != BufferKind::kTemporary && !taken) ||
        lives[b].first < 0) {
      continue;
    }
    Life life = lives[b];
    if (taken) life.first = -1;  // exists before the first step
    life.buffer = b;
    life.begin = plan.shapes.Hint(at.offset_bytes);
    life.end = life.begin + plan.shapes.Hint(at.bytes);
    if (at.own >= 0 && !at.in_arena) {
      life.begin = 0;
      life.end = life.end > 0 ? life.end : 1;
    } else if (!at.in_arena || life.begin < 0 || life.end > arena) {
      return Broken("K2", plan.buffers[b].name, "no place in the arena");
    }
    placed.push_back(life);
  }
  for (size_t i = 0; i < placed.size(); ++i) {
    for (size_t k = i + 1; k < placed.size(); ++k) {
      const Life &a = placed[i], &b = placed[k];
      if (plan.placements[a.buffer].own != plan.placements[b.buffer].own ||
          a.first > b.last || b.first > a.last || a.begin >= b.end ||
          b.begin >= a.end || TakenInPlace(plan, a, b)) {
        continue;
      }
      return Broken("K3", plan.buffers[a.buffer].name,
                    absl::StrCat("overlaps ", plan.buffers[b.buffer].name));
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyCombined(const CombinedKernel& combined,
                            const KernelPlan& plan) {
  if (combined.parts.size() < 2) {
    return Broken("K7", combined.label, "found no second part");
  }
  constexpr size_t kNoWriter = ~size_t{0};
  std::vector<size_t> writer(plan.buffers.size(), kNoWriter);
  for (size_t p = 0; p < combined.parts.size(); ++p) {
    const PlannedKernel& part = combined.parts[p];
    const bool points = std::holds_alternative<CudaPoints>(part.variant) ||
                        std::holds_alternative<CpuPoints>(part.variant);
    if (!points || part.variant.index() != combined.parts[0].variant.index() ||
        ThreadsOf(part.variant) != ThreadsOf(combined.parts[0].variant)) {
      return Broken("K7", combined.label,
                    absl::StrCat("found part ", p, " ", ToText(part.variant)));
    }
    for (const Store& store : part.nest.stores) {
      size_t& by = writer[store.buffer];
      if (by != kNoWriter && by != p) {
        return Broken(
            "K7", combined.label,
            absl::StrCat("two parts write ", plan.buffers[store.buffer].name));
      }
      by = p;
    }
  }
  for (size_t p = 0; p < combined.parts.size(); ++p) {
    for (const ScalarNode& node : combined.parts[p].nest.body) {
      if (node.op != ScalarOp::kLoad || writer[node.buffer] == kNoWriter ||
          writer[node.buffer] == p) {
        continue;
      }
      return Broken(
          "K7", combined.label,
          absl::StrCat("a part reads ", plan.buffers[node.buffer].name,
                       ", which another one writes"));
    }
  }
  return absl::OkStatus();
}

bool IsPowerOfTwo(int n) { return n > 0 && (n & (n - 1)) == 0; }

// Says what is wrong with the numbers of a variant; empty if nothing is.
std::string WrongNumber(const KernelVariant& variant, const LoopNest& nest) {
  KernelVariant copy = variant;
  for (const VariantField& field : FieldsOf(copy)) {
    const bool may_be_none =
        field.name == "axis" || field.name == "peel" || field.name == "held" ||
        field.name == "hold_costly" || field.name == "stages" ||
        field.name == "stretch" || field.name == "interior" ||
        FollowsFromOthers(field.name);
    const bool powers = field.name == "vector" || field.name == "lanes" ||
                        field.name == "across" || field.name == "down" ||
                        field.name == "cluster";
    if (*field.value < (may_be_none ? 0 : 1) ||
        (powers && !IsPowerOfTwo(*field.value))) {
      return absl::StrCat("found ", field.name, " ", *field.value);
    }
  }
  if (ThreadsOf(variant) > kMostThreads) {
    return absl::StrCat("found ", ThreadsOf(variant), " threads a block");
  }
  const int* axis = nullptr;
  if (const auto* v = std::get_if<CudaTiles>(&variant)) axis = &v->axis;
  if (const auto* v = std::get_if<CpuTiles>(&variant)) axis = &v->axis;
  if (axis != nullptr && *axis + 1 >= static_cast<int>(nest.axes.size())) {
    return absl::StrCat("found axis ", *axis);
  }
  return "";
}

absl::Status VerifyStretch(const PlannedKernel& kernel) {
  const int64_t due = StretchOf(kernel.nest);
  const auto* rows = std::get_if<CudaRows>(&kernel.variant);
  const int64_t found = rows == nullptr ? 0 : rows->stretch;
  if (due != found) {
    return Broken(
        "K9", kernel.label,
        absl::StrCat("found a stretch of ", found, " rows, expected ", due));
  }
  if (rows != nullptr && rows->cluster > 1 &&
      (rows->rows != 1 || rows->parts != 1 || found != 0 ||
       rows->cluster > kMostClustered)) {
    return Broken(
        "K10", kernel.label,
        absl::StrCat("found a cluster of ", rows->cluster, ", rows ",
                     rows->rows, ", parts ", rows->parts, ", stretch ", found));
  }
  if (found > 0 && (rows->held == 0 || rows->parts != 1 || rows->peel != 0)) {
    return Broken("K9", kernel.label,
                  absl::StrCat("found held ", rows->held, ", parts ",
                               rows->parts, ", peel ", rows->peel));
  }
  return absl::OkStatus();
}

// Whether a held row has room for all of its groups. Each run of the last axis begins a
// group and, with `peel`, ends one.
bool HoldsAllGroups(const CudaRows& rows, const LoopNest& nest,
                    const ShapeEnv& shapes) {
  SymExpr groups =
      CeilDiv(nest.axes.back().extent, int64_t{rows.vector}) + rows.peel;
  for (size_t a = 0; a + 1 < nest.axes.size(); ++a)
    if (nest.axes[a].reduction) groups = groups * nest.axes[a].extent;
  const int64_t most =
      groups.is_constant() ? groups.constant() : shapes.Range(groups).max;
  return int64_t{rows.held} * rows.lanes * rows.cluster >= most;
}

// Says what is wrong with the numbers that follow from the others (finish_variant.h);
// empty if nothing is.
std::string WrongFollower(const CudaRows& v) {
  const int step = v.vector * v.unroll;
  if (v.held > 0 ? v.floats != 0 : v.floats < step || v.floats % step != 0)
    return absl::StrCat("found floats ", v.floats, ", held ", v.held,
                        ", vector ", v.vector, ", unroll ", v.unroll);
  if (v.once > (v.stages > 0 ? 1 : 0))
    return absl::StrCat("found once ", v.once, ", stages ", v.stages);
  if (v.branch > 1) return absl::StrCat("found branch ", v.branch);
  const bool joins = v.stretch > 0 && v.rows > 1;
  if (joins != (v.joined > 0) || v.joined > v.held)
    return absl::StrCat("found joined ", v.joined, ", held ", v.held, ", rows ",
                        v.rows, ", stretch ", v.stretch);
  return "";
}
std::string WrongFollower(const CudaColumns& v) {
  if (v.floats >= v.unroll && v.floats % v.unroll == 0) return "";
  return absl::StrCat("found floats ", v.floats, ", unroll ", v.unroll);
}
template <typename Variant>
std::string WrongFollower(const Variant&) {
  return "";
}

absl::Status VerifyFollowers(const PlannedKernel& kernel) {
  const std::string wrong = std::visit(
      [](const auto& v) { return WrongFollower(v); }, kernel.variant);
  return wrong.empty() ? absl::OkStatus() : Broken("K17", kernel.label, wrong);
}

absl::Status VerifyTallies(const PlannedKernel& kernel) {
  const auto* tallies = std::get_if<CudaTallies>(&kernel.variant);
  for (const ScalarNode& node : kernel.nest.body) {
    if (node.op != ScalarOp::kTally || tallies == nullptr) continue;
    if (tallies->values == node.number.i &&
        tallies->threads >= tallies->values && tallies->threads % 32 == 0) {
      continue;
    }
    return Broken(
        "K12", kernel.label,
        absl::StrCat("found ", tallies->threads, " threads for ",
                     tallies->values, " values, expected ", node.number.i));
  }
  return absl::OkStatus();
}

absl::Status VerifyColumns(const PlannedKernel& kernel) {
  const auto* columns = std::get_if<CudaColumns>(&kernel.variant);
  if (columns == nullptr || columns->peel == 0) return absl::OkStatus();
  const auto reduced =
      std::count_if(kernel.nest.axes.begin(), kernel.nest.axes.end(),
                    [](const Axis& axis) { return axis.reduction; });
  if (reduced == 1 && kernel.nest.axes.size() > 1 && columns->peel == 1 &&
      columns->vector > 1 && columns->down % columns->vector == 0) {
    return absl::OkStatus();
  }
  return Broken(
      "K14", kernel.label,
      absl::StrCat("found peel ", columns->peel, ", vector ", columns->vector,
                   ", down ", columns->down, ", ", reduced, " reduction axes"));
}

absl::Status VerifyTiles(const PlannedKernel& kernel, const KernelPlan& plan) {
  const auto* tiles = std::get_if<CudaTiles>(&kernel.variant);
  if (tiles == nullptr) return absl::OkStatus();
  bool sound =
      tiles->edge % tiles->vector == 0 && tiles->depth % tiles->across == 0;
  if (sound && tiles->peel != 0) {
    ASSIGN_OR_RETURN(const NestFacts facts,
                     FactsOf(kernel.nest, plan.buffers, plan.shapes));
    const TileWalks walks =
        WalksOf(*tiles, kernel.nest, facts, plan.buffers, plan.shapes);
    sound = tiles->peel == 1 && tiles->vector * tiles->across > 1 &&
            MayPeel(walks.through, kernel.nest);
  }
  if (sound) return absl::OkStatus();
  return Broken("K15", kernel.label,
                absl::StrCat("found ", ToText(kernel.variant)));
}

absl::Status VerifyProducts(const PlannedKernel& kernel,
                            const KernelPlan& plan) {
  const auto* products = std::get_if<CudaProducts>(&kernel.variant);
  if (products == nullptr) return absl::OkStatus();
  constexpr int kMostTiles = 4;
  if (!IsPowerOfTwo(products->tiles) || products->tiles > kMostTiles) {
    return Broken("K16", kernel.label,
                  absl::StrCat("found ", products->tiles, " tiles"));
  }
  ASSIGN_OR_RETURN(const NestFacts facts,
                   FactsOf(kernel.nest, plan.buffers, plan.shapes));
  if (MatrixProductOf(kernel.nest, facts, plan.buffers).has_value())
    return absl::OkStatus();
  return Broken("K16", kernel.label, "found no product of matrices");
}

absl::Status VerifyVariant(const PlannedKernel& kernel,
                           const KernelPlan& plan) {
  const ShapeEnv& shapes = plan.shapes;
  const KernelVariant& variant = kernel.variant;
  if (const std::string wrong = WrongNumber(variant, kernel.nest);
      !wrong.empty()) {
    return Broken("K5", kernel.label, wrong);
  }
  const auto* rows = std::get_if<CudaRows>(&variant);
  if (rows != nullptr && rows->held > 0 && HasReduction(kernel.nest) &&
      !HoldsAllGroups(*rows, kernel.nest, shapes)) {
    return Broken("K5", kernel.label,
                  absl::StrCat("held ", rows->held, " of ", rows->lanes,
                               " lanes is not all of a row"));
  }
  const bool shares = HasWorkspace(variant);
  if (shares != (kernel.workspace.partials != kNoBuffer)) {
    return Broken("K8", kernel.label,
                  absl::StrCat("found ", PartsOf(variant), " parts and ",
                               shares ? "no" : "a", " workspace"));
  }
  RETURN_IF_ERROR(VerifyTallies(kernel));
  RETURN_IF_ERROR(VerifyColumns(kernel));
  RETURN_IF_ERROR(VerifyTiles(kernel, plan));
  RETURN_IF_ERROR(VerifyProducts(kernel, plan));
  if (const auto* scans = std::get_if<CudaScans>(&variant);
      scans != nullptr && scans->parts > 1 && scans->rows != 1) {
    return Broken(
        "K11", kernel.label,
        absl::StrCat("found parts ", scans->parts, ", rows ", scans->rows));
  }
  RETURN_IF_ERROR(VerifyStretch(kernel));
  RETURN_IF_ERROR(VerifyFollowers(kernel));
  const bool reduces = HasReduction(kernel.nest);
  const bool for_points = std::holds_alternative<CudaPoints>(variant) ||
                          std::holds_alternative<CudaTiles>(variant) ||
                          std::holds_alternative<CudaCounts>(variant) ||
                          std::holds_alternative<CpuPoints>(variant) ||
                          std::holds_alternative<CpuTiles>(variant);
  if (std::holds_alternative<Unmapped>(variant)) return absl::OkStatus();
  if (reduces == for_points) {
    return Broken("K6", kernel.label,
                  reduces ? "a reduction mapped as points"
                          : "points mapped as a reduction");
  }
  return absl::OkStatus();
}

absl::Status VerifyFlash(const FlashKernel& kernel, const KernelPlan& plan) {
  RETURN_IF_ERROR(VerifyAttention(kernel.attention, plan.buffers));
  const bool backward = kernel.part != FlashKernel::Part::kForward;
  const auto* v = std::get_if<CudaFlash>(&kernel.variant);
  if (std::holds_alternative<Unmapped>(kernel.variant)) return absl::OkStatus();
  if (backward != kernel.attention.backward || v == nullptr || v->warps < 1 ||
      v->tiles < 1 || v->sides < 1 || v->warps % v->sides != 0 ||
      v->columns < 16 || v->columns % (16 * v->sides) != 0 ||
      (v->held != 0 && (v->held != 1 || v->sides > 1)) ||
      v->warps > kMostThreads / kWarp) {
    return Broken("K13", kernel.label,
                  absl::StrCat("found part ", PartName(kernel.part), ", ",
                               ToText(kernel.variant)));
  }
  const int rows = PointsOfBlock(kernel.variant);
  const bool fits = kernel.part == FlashKernel::Part::kKeyGrads
                        ? 64 % v->columns == 0
                    : v->sides > 1 ? false
                    : backward     ? rows == 64 || rows == 128
                                   : true;
  if (backward == (kernel.sums != kNoBuffer) && fits) return absl::OkStatus();
  return Broken(
      "K13", kernel.label,
      absl::StrCat("found ", rows, " rows, ", v->columns, " columns and ",
                   kernel.sums == kNoBuffer ? "no sums" : "sums"));
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
  const auto once = [&](const std::string& label) {
    return labels.insert(label).second ? absl::OkStatus()
                                       : Broken("K4", label, "twice");
  };
  for (const PlannedStep& step : plan.steps) {
    if (const auto* combined = std::get_if<CombinedKernel>(&step)) {
      RETURN_IF_ERROR(once(combined->label));
      RETURN_IF_ERROR(VerifyCombined(*combined, plan));
    } else if (const auto* kernel = std::get_if<PlannedKernel>(&step)) {
      RETURN_IF_ERROR(once(kernel->label));
    } else if (const auto* flash = std::get_if<FlashKernel>(&step)) {
      RETURN_IF_ERROR(once(flash->label));
      RETURN_IF_ERROR(VerifyFlash(*flash, plan));
    }
    for (const PlannedKernel& kernel : KernelsOf(step)) {
      RETURN_IF_ERROR(VerifyVariant(kernel, plan));
      RETURN_IF_ERROR(VerifyNest(kernel.nest, plan.buffers, plan.shapes));
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
