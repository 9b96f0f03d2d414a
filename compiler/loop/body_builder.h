#ifndef KILN_COMPILER_LOOP_BODY_BUILDER_H_
#define KILN_COMPILER_LOOP_BODY_BUILDER_H_

// Builds the body of a nest. All nodes are added through it, so that equal nodes are
// stored once, constants are folded if that is exact, and the type rules of scalar_expr.h
// hold.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/loop/scalar_expr.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// A window of a pooling or convolution is written out in a body if it has no more cells
// than this. Compilers take too long over larger bodies.
inline constexpr int64_t kMostUnrolledCells = 81;

// The type that values of `dtype` are computed in: float32 for half types.
constexpr DType ComputeType(DType dtype) {
  return IsHalf(dtype) ? DType::kFloat32 : dtype;
}

class BodyBuilder {
 public:
  // Returns the node equal to `node` if there is one, otherwise a new one. Folds three
  // kinds of casts: of a constant, to the same type, and of a half type back to the
  // float32 it was rounded from (only stores round).
  ScalarId Add(ScalarNode&& node);

  // A constant of `dtype`, converted by C's rules.
  ScalarId Float(DType dtype, double value);
  ScalarId Int(DType dtype, int64_t value);
  ScalarId Bool(bool value) { return Int(DType::kBool, value ? 1 : 0); }
  // The value of `index` as an i64, or as an i32 in which it must fit.
  ScalarId Index(const SymExpr& index, DType dtype = DType::kInt64);
  ScalarId Load(BufferId buffer, DType dtype, DimVector index);
  // A load that, where `mask` is false, reads nothing and has the value 0.
  ScalarId MaskedLoad(BufferId buffer, DType dtype, DimVector index,
                      ScalarId mask);
  // The result's dtype is bool for comparisons and predicates, that of the second
  // argument for kWhere, otherwise that of the first argument.
  ScalarId Op(ScalarOp op, absl::Span<const ScalarId> args);
  ScalarId Op(ScalarOp op, ScalarId a) { return Op(op, absl::MakeSpan(&a, 1)); }
  ScalarId Op(ScalarOp op, ScalarId a, ScalarId b) {
    const ScalarId args[] = {a, b};
    return Op(op, args);
  }
  ScalarId Where(ScalarId condition, ScalarId then, ScalarId otherwise) {
    const ScalarId args[] = {condition, then, otherwise};
    return Op(ScalarOp::kWhere, args);
  }
  ScalarId Cast(DType dtype, ScalarId value);
  // The bits of `value` as a `dtype` of the same size.
  ScalarId Bitcast(DType dtype, ScalarId value);
  ScalarId Reduce(ReduceOp reduce, DType dtype,
                  absl::Span<const ScalarId> args);

  // `index`, checked by `op` (kCheckIndex or kWrapIndex) against `size`, where `mask`
  // holds if it is not Store::kNoMask. Adds no check if the index cannot be out of range.
  ScalarId CheckIndex(ScalarOp op, ScalarId index, ScalarId size,
                      ScalarId mask);
  // Sets the extents of the nest's axes, which may show that an index needs no check.
  // Both arguments must outlive this.
  void KnowExtents(absl::Span<const SymExpr> extents, const ShapeEnv& shapes) {
    extents_ = extents;
    shapes_ = &shapes;
  }

  // An i64 (or narrower) node as an index expression: the expression of a constant or
  // kIndex, otherwise an indirect variable.
  SymExpr AsIndex(ScalarId node) const;

  const ScalarNode& node(ScalarId id) const { return body_[id]; }
  DType dtype(ScalarId id) const { return body_[id].dtype; }
  uint32_t size() const { return static_cast<uint32_t>(body_.size()); }
  // Makes room for so many more nodes.
  void Reserve(size_t more);
  const std::vector<ScalarNode>& body() const { return body_; }
  std::vector<ScalarNode> Take();

 private:
  bool ProvesNonNegative(ScalarId id) const;
  bool ProvesBelow(ScalarId id, ScalarId size) const;

  absl::Span<const SymExpr> extents_;
  const ShapeEnv* shapes_ = nullptr;
  std::vector<ScalarNode> body_;
  std::vector<uint64_t> hashes_;  // by node
};

// The replacement for a load in a copied body: a node of the new body. None: the load is
// copied.
using LoadReplacement =
    absl::FunctionRef<std::optional<ScalarId>(const ScalarNode& load)>;

// Stands for the axes of a copy: each axis stays what it is.
inline constexpr absl::Span<const SymExpr> kSameAxes;

// Copies `body` into `to` with each axis i replaced by `axes[i]`. `mask`, if not
// Store::kNoMask, is a bool node of `to` that masks every load. `replace` sees loads with
// arguments and indices already rewritten. Returns the new id of each node.
std::vector<ScalarId> CopyBody(const std::vector<ScalarNode>& body,
                               absl::Span<const SymExpr> axes, ScalarId mask,
                               LoadReplacement replace, BodyBuilder& to);

// `index` with axes and nodes replaced by the new ones.
SymExpr RewriteIndex(const SymExpr& index, absl::Span<const SymExpr> axes,
                     absl::Span<const ScalarId> nodes, const BodyBuilder& to);

// `store` with axes and nodes replaced by the new ones.
Store CopyStore(Store store, absl::Span<const SymExpr> axes,
                absl::Span<const ScalarId> nodes, const BodyBuilder& to);

// Removes the nodes on which no store, or not the contraction's value, depends.
void DropDeadNodes(LoopNest& nest);
void DropDeadNodes(Contraction& contraction);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_BODY_BUILDER_H_
