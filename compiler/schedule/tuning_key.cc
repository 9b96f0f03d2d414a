#include "compiler/schedule/tuning_key.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/schedule/size_class.h"
#include "proto/base/digest.h"

namespace kiln {
namespace {

constexpr int64_t kWidest = 16;  // elements in the widest vector
// If a reduction has fewer results, they do not fill the largest chip, and several
// blocks may share one.
constexpr int64_t kFewResults = int64_t{1} << 16;

class KeyWriter {
 public:
  KeyWriter(const LoopNest& nest, const NestFacts& facts,
            const std::vector<Buffer>& buffers, const ShapeEnv& shapes)
      : nest_(nest), facts_(facts), buffers_(buffers), shapes_(shapes) {}

  std::string Digits(const Target& target, const CandidateLimits& limits,
                     bool exact) {
    // Raise the version when the same key comes to mean other configurations.
    sha_.AddField("kiln configurations 1").AddField(target.name);
    sha_.AddNumber(nest_.axes.size());
    for (const Axis& axis : nest_.axes) AddExtent(axis, exact);
    sha_.AddNumber(nest_.body.size());
    for (ScalarId id = 0; id < nest_.body.size(); ++id) AddNode(id);
    sha_.AddNumber(nest_.stores.size());
    for (size_t s = 0; s < nest_.stores.size(); ++s) {
      const Store& store = nest_.stores[s];
      Add(store.value).Add(static_cast<int>(store.mode)).Add(store.mask);
      Add(store.stretch);
      AddAccess(store.buffer, facts_.store_offset[s]);
    }
    if (limits.max_row != 0) sha_.AddField("max_row").AddNumber(limits.max_row);
    if (!limits.split) sha_.AddField("no split");
    return sha_.Finish().Hex().substr(0, kDigestDigits);
  }

 private:
  KeyWriter& Add(int64_t number) {
    sha_.AddNumber(static_cast<uint64_t>(number));
    return *this;
  }

  void AddExtent(const Axis& axis, bool exact) {
    const SymExpr& extent = axis.extent;
    Add(axis.reduction).Add(extent.is_constant());
    if (extent.is_constant() && (exact || axis.reduction)) {
      Add(extent.constant());
      return;
    }
    Add(SizeClass(shapes_.Hint(extent))).Add(WidestDivisor(extent));
    // Whether rows can be kept in registers depends on the longest row.
    if (axis.reduction) Add(shapes_.Range(extent).max);
  }

  void AddNode(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    Add(static_cast<int>(node.op)).Add(static_cast<int>(node.dtype));
    Add(static_cast<int>(node.reduce));
    // A reduction's number says which result it gives, or how many. Other numbers do not
    // matter.
    Add(IsReduction(node.op) ? node.number.i : 0);
    Add(node.args.size());
    for (const ScalarId arg : node.args) Add(arg);
    if (node.op == ScalarOp::kLoad)
      AddAccess(node.buffer, facts_.load_offset[id]);
  }

  // Adds how the address changes along each axis and, along contiguous axes, how it is
  // aligned.
  void AddAccess(BufferId id, const SymExpr& offset) {
    const auto [at, added] = numbers_.emplace(id, numbers_.size());
    Add(at->second);
    if (added) {
      const Buffer& buffer = buffers_[id];
      Add(static_cast<int>(buffer.dtype)).Add(static_cast<int>(buffer.kind));
      Add(buffer.alignment_bytes).Add(WidestDivisor(buffer.offset));
    }
    for (uint32_t axis = 0; axis < facts_.num_axes; ++axis) {
      const Motion motion = MotionOf(offset, axis, facts_);
      Add(static_cast<int>(motion));
      if (motion != Motion::kContiguous) continue;
      int64_t aligned = kWidest;
      while (aligned > 1 && !RestIsMultiple(offset, axis, aligned))
        aligned /= 2;
      Add(aligned);
    }
  }

  const LoopNest& nest_;
  const NestFacts& facts_;
  const std::vector<Buffer>& buffers_;
  const ShapeEnv& shapes_;
  Sha256 sha_;
  absl::flat_hash_map<BufferId, size_t> numbers_;  // by first use
};

absl::string_view WorkOf(const LoopNest& nest, const NestFacts& facts) {
  for (const ScalarNode& node : nest.body) {
    if (node.op == ScalarOp::kSort) return "sort";
    if (node.op == ScalarOp::kTally) return "tally";
  }
  if (facts.has_scan) return "scan";
  return facts.reduced != 0 ? "reduce" : "points";
}

// The dtype of the first load or, if nothing is loaded, of the first store.
DType DTypeOf(const LoopNest& nest, const std::vector<Buffer>& buffers) {
  for (const ScalarNode& node : nest.body)
    if (node.op == ScalarOp::kLoad) return buffers[node.buffer].dtype;
  return nest.stores.empty() ? DType::kFloat32
                             : buffers[nest.stores[0].buffer].dtype;
}

}  // namespace

std::string TuningKey(const LoopNest& nest, const NestFacts& facts,
                      const std::vector<Buffer>& buffers,
                      const ShapeEnv& shapes, const Target& target,
                      const CandidateLimits& limits) {
  SymExpr outer = 1, reduced = 1;
  for (const Axis& axis : nest.axes) {
    SymExpr& points = axis.reduction ? reduced : outer;
    points = points * axis.extent;
  }
  const bool exact = facts.reduced != 0 && shapes.Hint(outer) < kFewResults;
  return absl::StrCat(
      WorkOf(nest, facts), "/", ShortName(DTypeOf(nest, buffers)), "/2^",
      SizeClass(shapes.Hint(outer)), "x2^", SizeClass(shapes.Hint(reduced)),
      "/",
      KeyWriter(nest, facts, buffers, shapes).Digits(target, limits, exact),
      "/", target.name);
}

}  // namespace kiln
