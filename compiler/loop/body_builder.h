#ifndef KILN_COMPILER_LOOP_BODY_BUILDER_H_
#define KILN_COMPILER_LOOP_BODY_BUILDER_H_

// Builds the body of a nest. Every node is added here, so equal nodes are stored
// once, constants are folded where that is exact, and the type rules of
// scalar_expr.h hold.

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
  // Returns the node equal to `node` if there is one, else a new one. Folds three
  // kinds of casts: of a constant, to the same type, and of a half type back to the
  // float32 it was rounded from (only stores round).
  ScalarId Add(ScalarNode node);

  // A constant of `dtype`, converted as C converts.
  ScalarId Float(DType dtype, double value);
  ScalarId Int(DType dtype, int64_t value);
  ScalarId Bool(bool value) { return Int(DType::kBool, value ? 1 : 0); }
  // The value of `index`, as an i64 or, where it fits, an i32.
  ScalarId Index(const SymExpr& index, DType dtype = DType::kInt64);
  ScalarId Load(BufferId buffer, DType dtype, DimVector index);
  // Reads nothing and is 0 where `mask` is false.
  ScalarId MaskedLoad(BufferId buffer, DType dtype, DimVector index,
                      ScalarId mask);
  // Dtype of the result: bool for comparisons and predicates, else that of the
  // first argument (of the second for where).
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
  // The bits of `value` as a `dtype` of its size.
  ScalarId Bitcast(DType dtype, ScalarId value);
  ScalarId Reduce(ReduceOp reduce, DType dtype,
                  absl::Span<const ScalarId> args);

  // `index` where kCheckIndex or kWrapIndex finds it inside of `size`, under
  // `mask` if that is not Store::kNoMask. No node when it cannot be outside.
  ScalarId CheckIndex(ScalarOp op, ScalarId index, ScalarId size,
                      ScalarId mask);
  // The extents of the nest's axes. They show which indices cannot be out of bounds
  // and need no check. Both arguments must outlive this.
  void KnowExtents(absl::Span<const SymExpr> extents, const ShapeEnv& shapes) {
    extents_ = extents;
    shapes_ = &shapes;
  }

  // An i64 (or narrower) node as part of an index: a constant or kIndex gives
  // its own expression, else it is an indirect variable.
  SymExpr AsIndex(ScalarId node) const;

  const ScalarNode& node(ScalarId id) const { return body_[id]; }
  DType dtype(ScalarId id) const { return body_[id].dtype; }
  uint32_t size() const { return static_cast<uint32_t>(body_.size()); }
  const std::vector<ScalarNode>& body() const { return body_; }
  std::vector<ScalarNode> Take();

 private:
  bool ProvesNonNegative(ScalarId id) const;
  bool ProvesBelow(ScalarId id, ScalarId size) const;

  absl::Span<const SymExpr> extents_;
  const ShapeEnv* shapes_ = nullptr;
  std::vector<ScalarNode> body_;
  std::vector<uint64_t> hashes_;  // one a node
};

// The replacement for a load of a copied body: a node of the body it is copied to,
// or none, and the load itself is copied.
using LoadReplacement =
    absl::FunctionRef<std::optional<ScalarId>(const ScalarNode& load)>;

// Copies `body` into `to` with each axis replaced by `axes[i]`. `mask`, if not
// Store::kNoMask, a bool node of `to`, guards every load. Loads are offered to
// `replace` with arguments and indices rewritten already. Returns the new id
// of each node.
std::vector<ScalarId> CopyBody(const std::vector<ScalarNode>& body,
                               absl::Span<const SymExpr> axes, ScalarId mask,
                               LoadReplacement replace, BodyBuilder& to);

// The same expression over the new axes and nodes.
SymExpr RewriteIndex(const SymExpr& index, absl::Span<const SymExpr> axes,
                     absl::Span<const ScalarId> nodes, const BodyBuilder& to);

// The store with its index and nodes rewritten in the same way.
Store CopyStore(Store store, absl::Span<const SymExpr> axes,
                absl::Span<const ScalarId> nodes, const BodyBuilder& to);

// Removes the nodes that no store, or no value, needs.
void DropDeadNodes(LoopNest& nest);
void DropDeadNodes(Contraction& contraction);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_BODY_BUILDER_H_
