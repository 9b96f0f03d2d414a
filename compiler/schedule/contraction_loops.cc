#include "compiler/schedule/contraction_loops.h"

#include <algorithm>
#include <utility>

#include "compiler/loop/body_builder.h"
#include "compiler/loop/index_expr.h"
#include "compiler/loop/loop_transforms.h"

namespace kiln {
namespace {

class LoopsWriter {
 public:
  LoopsWriter(const Contraction& c, const std::vector<Buffer>& buffers,
              const ShapeEnv& shapes)
      : c_(c), buffers_(buffers), shapes_(shapes), is_outer_(c.extents.size()) {
    for (const SymExpr& e : c.result().index)
      e.VisitVars([&](Var v) { is_outer_[v.index] = true; });
    PlaceAxes(/*reduction=*/false);
    PlaceAxes(/*reduction=*/true);
    for (const Axis& axis : nest_.axes) extents_.push_back(axis.extent);
  }

  std::optional<LoopNest> Write() {
    std::optional<DimVector> to = IndexOf(c_.result());
    if (!to.has_value()) return std::nullopt;
    std::vector<ScalarId> ids;
    for (const ScalarNode& old : c_.body) {
      const std::optional<ScalarId> id = Copy(old, ids);
      if (!id.has_value()) return std::nullopt;
      ids.push_back(*id);
    }
    nest_.origins = c_.origins;
    nest_.client_nodes = c_.client_nodes;
    nest_.stores.push_back(
        {c_.result().view.buffer, *std::move(to), ids[c_.value]});
    nest_.body = body_.Take();
    DropDeadNodes(nest_);
    return SplitAtDivisions(std::move(nest_), shapes_);
  }

 private:
  // Adds the axes of one kind to the nest. Axes of one point are left out.
  void PlaceAxes(bool reduction) {
    axes_.resize(c_.extents.size(), SymExpr(0));
    for (size_t k = 0; k < c_.extents.size(); ++k) {
      if (is_outer_[k] == reduction || c_.extents[k].Is(1)) continue;
      axes_[k] = SymExpr::Axis(static_cast<uint32_t>(nest_.axes.size()));
      nest_.axes.push_back({c_.extents[k], reduction});
      reduces_ |= reduction;
    }
  }

  std::optional<ScalarId> Copy(const ScalarNode& old,
                               const std::vector<ScalarId>& ids) {
    std::vector<ScalarId> args;
    for (const ScalarId arg : old.args) args.push_back(ids[arg]);
    switch (old.op) {
      case ScalarOp::kFactor: {
        const ContractionOperand& factor =
            c_.factor(static_cast<int>(old.number.i));
        std::optional<DimVector> index = IndexOf(factor);
        if (!index.has_value()) return std::nullopt;
        return body_.Load(factor.view.buffer, factor.view.dtype,
                          *std::move(index));
      }
      case ScalarOp::kContract: {
        const ScalarId product = body_.Op(ScalarOp::kMul, args);
        if (!reduces_) return product;
        return body_.Reduce(ReduceOp::kSum, old.dtype, {&product, 1});
      }
      case ScalarOp::kCast:
        return body_.Cast(old.dtype, args[0]);
      case ScalarOp::kIndex:
        return body_.Index(RewriteIndex(old.index[0], axes_, ids, body_));
      default: {
        ScalarNode node{old.op, old.dtype, old.reduce, old.number};
        node.args.assign(args.begin(), args.end());
        node.buffer = old.buffer;
        for (const SymExpr& e : old.index)
          node.index.push_back(RewriteIndex(e, axes_, ids, body_));
        return body_.Add(std::move(node));
      }
    }
  }

  std::optional<DimVector> IndexOf(const ContractionOperand& operand) {
    SymExpr address = operand.view.offset;
    for (size_t d = 0; d < operand.index.size(); ++d) {
      address += RewriteIndex(operand.index[d], axes_, {}, body_) *
                 operand.view.strides[d];
    }
    return IndexAt(address, buffers_[operand.view.buffer], extents_, shapes_);
  }

  const Contraction& c_;
  const std::vector<Buffer>& buffers_;
  const ShapeEnv& shapes_;
  std::vector<bool> is_outer_;  // for each axis: whether the result has it
  std::vector<SymExpr> axes_;   // for each axis: the nest's axis, or 0
  DimVector extents_;           // of the nest's axes
  bool reduces_ = false;
  LoopNest nest_;
  BodyBuilder body_;
};

}  // namespace

std::optional<DimVector> IndexAt(const SymExpr& address, const Buffer& buffer,
                                 const DimVector& extents,
                                 const ShapeEnv& shapes) {
  // The dimensions from the outermost to the innermost.
  std::vector<size_t> order;
  for (size_t d = 0; d < buffer.sizes.size(); ++d)
    if (!buffer.sizes[d].Is(1)) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return shapes.Hint(buffer.strides[a]) > shapes.Hint(buffer.strides[b]);
  });
  DimVector index(buffer.sizes.size(), SymExpr(0));
  SymExpr rest = address;
  for (size_t k = 0; k < order.size(); ++k) {
    const SymExpr& stride = buffer.strides[order[k]];
    if (stride.Is(0)) return std::nullopt;
    if (k + 1 < order.size()) {
      const SymExpr& inner = buffer.strides[order[k + 1]];
      // The stride must be at least as long as all of the next dimension.
      const SymExpr reach = inner * buffer.sizes[order[k + 1]];
      if (!(stride == reach) && !shapes.KnownLt(reach - 1, stride))
        return std::nullopt;
    } else if (!stride.Is(1)) {
      return std::nullopt;
    }
    index[order[k]] = SimplifyIndex(FloorDiv(rest, stride), extents, shapes);
    rest = SimplifyIndex(Mod(rest, stride), extents, shapes);
  }
  return index;
}

std::optional<LoopNest> NestOf(const Contraction& product,
                               const std::vector<Buffer>& buffers,
                               const ShapeEnv& shapes) {
  if (product.form != Contraction::Form::kProduct) return std::nullopt;
  return LoopsWriter(product, buffers, shapes).Write();
}

}  // namespace kiln
