#include "compiler/schedule/fusion_rules.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/loop/body_builder.h"
#include "compiler/loop/loop_transforms.h"

namespace kiln {

absl::string_view ApartName(ApartBecause because) {
  switch (because) {
    case ApartBecause::kNothing:
      return "nothing";
    case ApartBecause::kScan:
      return "scan";
    case ApartBecause::kTooLarge:
      return "too large";
    case ApartBecause::kIterationDiffers:
      return "iteration differs";
    case ApartBecause::kReadsElsewhere:
      return "reads elsewhere";
    case ApartBecause::kWritesTwice:
      return "writes twice";
    case ApartBecause::kAtomicIntoReduction:
      return "atomic into reduction";
    case ApartBecause::kSavesTooLittle:
      return "saves too little";
    case ApartBecause::kHoldsMemory:
      return "holds memory";
    case ApartBecause::kCycle:
      return "cycle";
  }
  return "?";
}

namespace {

std::string SpaceText(const FusionUnit& unit) {
  return unit.reduces ? absl::StrCat("[", unit.outer_points, " | ",
                                     unit.reduced_points, "]")
                      : absl::StrCat("[", unit.outer_points, "]");
}

// Whether the spaces may be equal, judged by their numbers of points alone. A cheap check
// that most pairs fail.
bool CountsAgree(const FusionUnit& a, const FusionUnit& b) {
  if (a.reduces == b.reduces) {
    return a.outer_points == b.outer_points &&
           a.reduced_points == b.reduced_points;
  }
  const FusionUnit& reducer = a.reduces ? a : b;
  const FusionUnit& walker = a.reduces ? b : a;
  return walker.outer_points == reducer.outer_points ||
         walker.outer_points == reducer.outer_points * reducer.reduced_points;
}

bool StoresWhatIsRead(const FusionUnit& first, const FusionUnit& second) {
  for (const NestAccess& a : first.accesses) {
    if (!a.store) continue;
    for (const NestAccess& b : second.accesses) {
      if (!b.store && a.buffer == b.buffer) return true;
    }
  }
  return false;
}

// Whether the two together have too many loads and stores for one kernel. A large kernel
// may still be fused with a reader of its result that has few accesses: that saves a
// launch and memory traffic, and needs few more registers.
bool AccessTooMuch(const FusionUnit& first, const FusionUnit& second,
                   const FusionLimits& limits) {
  const size_t each = first.accesses.size() + second.accesses.size();
  if (each <= limits.accesses) return false;
  return second.accesses.size() > limits.accesses_of_reader ||
         !StoresWhatIsRead(first, second);
}

// Checks that a buffer which one nest writes is accessed by the other at equal indices.
FusionVerdict JudgePlaces(const FusionUnit& first, const FusionUnit& second,
                          const Alignment& alignment,
                          const std::vector<Buffer>& buffers,
                          const ShapeEnv& shapes) {
  for (const NestAccess& a : first.accesses) {
    for (const NestAccess& b : second.accesses) {
      if (a.buffer != b.buffer || (!a.store && !b.store)) continue;
      if (a.store && b.store) {
        return {ApartBecause::kWritesTwice, buffers[a.buffer].name};
      }
      const NestAccess& store = a.store ? a : b;
      if (!store.plain || !SamePlace(a, b, alignment, shapes)) {
        return {ApartBecause::kReadsElsewhere, buffers[a.buffer].name};
      }
    }
  }
  return {};
}

}  // namespace

FusionVerdict JudgeFusion(const FusionUnit& first, const FusionUnit& second,
                          const std::vector<Buffer>& buffers,
                          const ShapeEnv& shapes, const FusionLimits& limits) {
  if (!CountsAgree(first, second)) {
    return {ApartBecause::kIterationDiffers,
            absl::StrCat(SpaceText(first), " against ", SpaceText(second))};
  }
  if (first.scans || second.scans) return {ApartBecause::kScan, ""};
  if (first.nests + second.nests > limits.nests ||
      first.nest.body.size() + second.nest.body.size() > limits.body ||
      AccessTooMuch(first, second, limits)) {
    return {ApartBecause::kTooLarge,
            absl::StrCat(first.nests, " and ", second.nests, " nests, ",
                         first.nest.body.size() + second.nest.body.size(),
                         " nodes")};
  }
  if ((first.atomic && second.reduces) || (second.atomic && first.reduces)) {
    return {ApartBecause::kAtomicIntoReduction, ""};
  }
  std::optional<Alignment> alignment = AlignAxes(first, second, shapes);
  if (!alignment.has_value()) {
    return {ApartBecause::kIterationDiffers,
            absl::StrCat(SpaceText(first), " and ", SpaceText(second),
                         " in another order")};
  }
  FusionVerdict verdict =
      JudgePlaces(first, second, *alignment, buffers, shapes);
  if (verdict.fuse()) verdict.alignment = *std::move(alignment);
  return verdict;
}

namespace {

void TakeStores(const LoopNest& nest, const std::vector<SymExpr>& values,
                const std::vector<ScalarId>& ids, const BodyBuilder& body,
                LoopNest& into) {
  for (const Store& store : nest.stores)
    into.stores.push_back(CopyStore(store, values, ids, body));
}

}  // namespace

LoopNest MergeNests(const FusionUnit& first, const FusionUnit& second,
                    const Alignment& alignment, const ShapeEnv& shapes) {
  LoopNest merged;
  merged.axes = alignment.axes;
  merged.inlined = first.nest.inlined + second.nest.inlined;
  merged.merged = first.nest.merged + second.nest.merged + 1;
  TakeOrigins(first.nest, merged);
  TakeOrigins(second.nest, merged);
  BodyBuilder body;
  const auto keep = [](const ScalarNode&) -> std::optional<ScalarId> {
    return std::nullopt;
  };
  const std::vector<ScalarId> first_ids = CopyBody(
      first.nest.body, alignment.first_values, Store::kNoMask, keep, body);
  TakeStores(first.nest, alignment.first_values, first_ids, body, merged);
  const size_t forwarded = merged.stores.size();
  const auto forward = [&](const ScalarNode& load) -> std::optional<ScalarId> {
    for (size_t s = 0; s < forwarded; ++s) {
      const Store& store = merged.stores[s];
      if (store.buffer != load.buffer) continue;
      if (load.args.empty()) return store.value;
      const DType dtype = body.dtype(store.value);
      const DType compute = ComputeType(dtype);
      ScalarNode other{ScalarOp::kConstant, compute};
      other.number = load.number;
      const ScalarId value =
          body.Where(load.args[0], body.Cast(compute, store.value),
                     body.Add(std::move(other)));
      return body.Cast(dtype, value);
    }
    return std::nullopt;
  };
  const std::vector<ScalarId> second_ids = CopyBody(
      second.nest.body, alignment.second_values, Store::kNoMask, forward, body);
  TakeStores(second.nest, alignment.second_values, second_ids, body, merged);
  std::vector<SymExpr> extents;
  for (const Axis& axis : merged.axes) extents.push_back(axis.extent);
  merged.body = body.Take();
  for (ScalarNode& node : merged.body) {
    for (SymExpr& e : node.index) e = SimplifyIndex(e, extents, shapes);
  }
  for (Store& store : merged.stores) {
    for (SymExpr& e : store.index) e = SimplifyIndex(e, extents, shapes);
  }
  DropDeadNodes(merged);
  return merged;
}

}  // namespace kiln
