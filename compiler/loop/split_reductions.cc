#include "compiler/loop/split_reductions.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/loop/body_builder.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/loop/moving_nodes.h"

namespace kiln {

namespace {

constexpr int64_t kFewResults = 4;
constexpr int64_t kLongReduction = 1 << 17;  // points
constexpr int64_t kLeastParts = 4;
constexpr int64_t kMostParts = 64;

struct Halves {
  LoopNest parts;
  LoopNest whole;
  std::vector<Buffer> partials;  // [outer axes, parts], one a reduction
};

class Splitter {
 public:
  Splitter(const LoopNest& nest, const ShapeEnv& shapes, BufferId first_buffer)
      : nest_(nest),
        shapes_(shapes),
        first_buffer_(first_buffer),
        outer_(NumOuterAxes(nest)),
        moves_(nest) {}

  std::optional<Halves> Run() {
    if (!ChooseAxis() || !MaySplit()) return std::nullopt;
    Halves halves;
    for (const ScalarId id : reduces_) halves.partials.push_back(Partial(id));
    if (!MakeParts(halves.parts)) return std::nullopt;
    MakeWhole(halves.whole);
    return halves;
  }

 private:
  // Whether the nest is a long reduction to few results and has an axis that can be
  // split.
  bool ChooseAxis() {
    int64_t results = 1, points = 1;
    for (uint32_t a = 0; a < nest_.axes.size(); ++a) {
      const SymExpr& extent = nest_.axes[a].extent;
      if (!extent.is_constant() || extent.constant() < 1) return false;
      (a < outer_ ? results : points) *= extent.constant();
    }
    if (results > kFewResults || points < kLongReduction) return false;
    for (uint32_t a = outer_; a < nest_.axes.size(); ++a) {
      for (int64_t n = kMostParts; n > parts_ && n >= kLeastParts; --n) {
        if (nest_.axes[a].extent.constant() % n != 0) continue;
        parts_ = n;
        axis_ = a;
      }
    }
    return parts_ > 1;
  }

  bool MaySplit() {
    // For each value, whether it depends on the result of a reduction.
    std::vector<bool> reduced;
    for (ScalarId id = 0; id < nest_.body.size(); ++id) {
      const ScalarNode& node = nest_.body[id];
      bool of_result = false;
      for (const ScalarId arg : node.args) of_result |= reduced[arg];
      if (IsReduction(node.op)) {
        if (node.op != ScalarOp::kReduce || IsTupleReduction(node.reduce) ||
            node.reduce == ReduceOp::kLogSumExp || of_result) {
          return false;
        }
        reduces_.push_back(id);
        of_result = true;
      }
      if (moves_[id] && of_result) return false;
      reduced.push_back(of_result);
    }
    return !reduces_.empty() && WritesApart();
  }

  // Whether stores at reduced points overwrite nothing that is read once per outer point,
  // and there are no kSum stores.
  bool WritesApart() const {
    for (const Store& store : nest_.stores) {
      if (store.mode == StoreMode::kSum) return false;
      if (!moves_.Moves(store)) continue;
      for (ScalarId id = 0; id < nest_.body.size(); ++id) {
        const ScalarNode& node = nest_.body[id];
        if (node.op == ScalarOp::kLoad && node.buffer == store.buffer &&
            !moves_[id]) {
          return false;
        }
      }
    }
    return true;
  }

  Buffer Partial(ScalarId reduce) const {
    Buffer buffer;
    buffer.dtype = nest_.body[reduce].dtype;
    for (uint32_t a = 0; a < outer_; ++a)
      buffer.sizes.push_back(nest_.axes[a].extent);
    buffer.sizes.push_back(parts_);
    buffer.strides.resize(buffer.sizes.size());
    SymExpr stride = 1;
    for (size_t d = buffer.sizes.size(); d-- > 0;) {
      buffer.strides[d] = stride;
      stride = stride * buffer.sizes[d];
    }
    return buffer;
  }

  // The index of a part's partial result: the outer axes, then the part.
  DimVector PartIndex() const {
    DimVector index;
    for (uint32_t a = 0; a <= outer_; ++a) index.push_back(SymExpr::Axis(a));
    return index;
  }

  // Makes the nest that reduces the parts. The part is its last axis that is not reduced.
  bool MakeParts(LoopNest& out) const {
    const int64_t length = nest_.axes[axis_].extent.constant() / parts_;
    std::vector<Axis> axes(nest_.axes.begin(), nest_.axes.begin() + outer_);
    axes.push_back({parts_, false});
    std::vector<SymExpr> values;
    for (uint32_t a = 0; a < nest_.axes.size(); ++a) {
      values.push_back(SymExpr::Axis(a < outer_ ? a : a + 1));
      if (a >= outer_) axes.push_back(nest_.axes[a]);
    }
    axes[axis_ + 1].extent = length;
    values[axis_] = SymExpr::Axis(outer_) * length + values[axis_];
    LoopNest kept = nest_;
    kept.stores.clear();
    for (const Store& store : nest_.stores)
      if (moves_.Moves(store)) kept.stores.push_back(store);
    out = ReplaceAxes(kept, std::move(axes), values, shapes_);
    BufferId buffer = first_buffer_;
    for (ScalarId id = 0; id < out.body.size(); ++id) {
      if (out.body[id].op == ScalarOp::kReduce)
        out.stores.push_back({buffer++, PartIndex(), id});
    }
    if (buffer - first_buffer_ != reduces_.size()) return false;
    DropDeadNodes(out);
    return true;
  }

  void MakeWhole(LoopNest& out) const {
    TakeOrigins(nest_, out);
    out.axes.assign(nest_.axes.begin(), nest_.axes.begin() + outer_);
    out.axes.push_back({parts_, true});
    std::vector<SymExpr> axes;
    for (uint32_t a = 0; a < nest_.axes.size(); ++a)
      axes.push_back(a < outer_ ? SymExpr::Axis(a) : SymExpr(0));
    BodyBuilder body;
    std::vector<ScalarId> ids;
    BufferId buffer = first_buffer_;
    for (ScalarId id = 0; id < nest_.body.size(); ++id) {
      ScalarNode node = nest_.body[id];
      if (node.op == ScalarOp::kReduce) {
        const ScalarId part = body.Load(buffer++, node.dtype, PartIndex());
        ids.push_back(body.Reduce(node.reduce, node.dtype, {&part, 1}));
      } else if (moves_[id]) {
        ids.push_back(0);  // not needed by any store of this nest
      } else {
        for (ScalarId& arg : node.args) arg = ids[arg];
        for (SymExpr& e : node.index) e = RewriteIndex(e, axes, ids, body);
        ids.push_back(body.Add(std::move(node)));
      }
    }
    for (const Store& store : nest_.stores) {
      if (!moves_.Moves(store))
        out.stores.push_back(CopyStore(store, axes, ids, body));
    }
    out.body = body.Take();
    DropDeadNodes(out);
  }

  const LoopNest& nest_;
  const ShapeEnv& shapes_;
  const BufferId first_buffer_;
  const uint32_t outer_;  // axes that are not reduced
  const MovingNodes moves_;
  uint32_t axis_ = 0;  // the axis that is split
  int64_t parts_ = 1;
  std::vector<ScalarId> reduces_;
};

}  // namespace

int SplitReductions(LoopProgram& program) {
  int changed = 0;
  std::vector<LoopStep> steps;
  for (LoopStep& step : program.steps) {
    auto* nest = std::get_if<LoopNest>(&step);
    std::optional<Halves> halves;
    if (nest != nullptr && HasReduction(*nest)) {
      halves = Splitter(*nest, program.shapes,
                        static_cast<BufferId>(program.buffers.size()))
                   .Run();
    }
    if (halves.has_value()) {
      for (Buffer& buffer : halves->partials) {
        buffer.name = absl::StrCat("parts", program.buffers.size());
        program.buffers.push_back(std::move(buffer));
      }
      steps.push_back(std::move(halves->parts));
      steps.push_back(std::move(halves->whole));
      ++changed;
    } else {
      steps.push_back(std::move(step));
    }
  }
  program.steps = std::move(steps);
  return changed;
}

}  // namespace kiln
