#ifndef KILN_COMPILER_LOOP_LOWERING_H_
#define KILN_COMPILER_LOOP_LOWERING_H_

// What the families of lowerings share: where each value of the graph lies, and a writer
// for the nests of a node. Only files of this folder include it.

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/config/compile_options.h"
#include "compiler/graph/graph.h"
#include "compiler/graph/type_promotion.h"
#include "compiler/loop/body_builder.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// A value of the graph as a view of a buffer: an index for each dimension of the buffer,
// over Axis(k) for dimension k of the value. The axis of a dimension of size 1 does not
// occur.
struct PlacedValue {
  BufferId buffer = 0;
  DimVector index;
  bool placed = false;
};

// The state of the lowering of one graph, which lower_graph.cc fills node by node.
struct GraphLowering {
  const Graph& graph;
  const ArtifactOptions& options;
  LoopProgram program;
  std::vector<PlacedValue> values;  // by ValueId
  std::vector<uint32_t> uses;       // by ValueId: uses, outputs included
  // For each output the value that is returned; none if it is not a value.
  std::vector<std::optional<ValueId>> outputs;
  // By ValueId: strides that the caller expects; empty: those of the meta.
  std::vector<DimVector> output_strides;
  // By ValueId: whether a result lies channels-last (assign_layouts.h).
  std::vector<bool> channels_last;
  // Channels-last copies of other values that convolutions share, by ValueId.
  absl::flat_hash_map<uint32_t, View> channels_last_copies;
  int64_t random_streams = 0;
  // Those of the node that is being lowered; all new nests and steps get them.
  ClientNodes client_nodes;
  // The client's words for the node that is being lowered; `origin` if it gave none.
  std::vector<std::string> OriginsOf(absl::string_view origin) const;

  GraphLowering(const Graph& g, const ArtifactOptions& o)
      : graph(g), options(o) {}

  const TensorMeta& meta(ValueId v) const { return graph.meta(v); }
  const ShapeEnv& shapes() const { return program.shapes; }
  BufferId AddBuffer(BufferKind kind, DType dtype, DimVector sizes,
                     DimVector strides);
  // Adds a dense temporary for a result.
  BufferId PlaceResult(ValueId result);
  // The value as a strided view of its buffer. None if its index is not linear.
  std::optional<View> AsView(ValueId v) const;
  // A contiguous copy of the value, or one with these dense strides, as a view.
  View CopyOf(ValueId v, absl::string_view origin);
  View CopyOf(ValueId v, absl::string_view origin, DimVector strides);
};

// The value of which `v` is a view, or `v` itself.
ValueId MemoryOf(const Graph& graph, ValueId v);

// The index of a whole value: Axis(k) for dimension k, or 0 if its size is 1.
DimVector OwnAxes(const DimVector& sizes);

// The values that an index tensor may have.
enum class IndexRange : uint8_t {
  kInside,   // [0, size)
  kWrapped,  // [-size, size): negative ones count from the end
  kTrusted,  // as kWrapped, but known to be in range: not checked
};

// Builds the nest of one node.
class NestWriter {
 public:
  NestWriter(GraphLowering& lowering, absl::string_view origin)
      : g_(lowering), origin_(origin) {}

  // Adds an axis for each size that is not 1. Returns the index of each dimension.
  // Reduction axes come last.
  DimVector Iterate(const DimVector& sizes, bool reduction = false);

  // Loads the element of `v` at `at`, an index for each dimension; in its own dtype, or
  // cast.
  ScalarId Load(ValueId v, const DimVector& at);
  ScalarId LoadAs(ValueId v, const DimVector& at, DType dtype) {
    return body.Cast(dtype, Load(v, at));
  }
  ScalarId MaskedLoad(ValueId v, const DimVector& at, ScalarId mask);
  // Loads from a buffer that this node's nests share, in the buffer's dtype.
  ScalarId LoadCell(BufferId buffer, const DimVector& at) {
    return body.Load(buffer, g_.program.buffers[buffer].dtype, at);
  }
  // Loads `v`, broadcast by PyTorch's rules to an index of higher or equal rank.
  ScalarId LoadBroadcast(ValueId v, const DimVector& at, DType dtype);

  // A loaded index as an index of a dimension of `size`. Later loads and stores may
  // depend on it.
  SymExpr IndexInto(const SymExpr& size, ScalarId index, IndexRange range);

  // A number argument, or a tensor argument broadcast to `at`, as `dtype`.
  absl::StatusOr<ScalarId> Operand(const Argument& argument,
                                   const DimVector& at, DType dtype);

  // Stores to the buffer of `result`, which is placed if it has no place yet. A result
  // that nothing uses is not stored.
  void Store(ValueId result, const DimVector& at, ScalarId value,
             StoreMode mode = StoreMode::kSet,
             ScalarId mask = kiln::Store::kNoMask);
  void StoreTo(BufferId buffer, DimVector at, ScalarId value,
               StoreMode mode = StoreMode::kSet,
               ScalarId mask = kiln::Store::kNoMask);
  // Appends the nest to the program, if it stores anything.
  void Finish();

  BodyBuilder body;

 private:
  SymExpr Compose(const SymExpr& index, const DimVector& at) const;
  // `mask`, and the condition that no dimension with a loaded index is empty.
  ScalarId Guarded(ScalarId mask);
  // `mask`, and the condition that no dimension of `buffer` with stride 0 is empty. A
  // load whose address does not depend on an axis may be done even if that axis has no
  // points, and an input without elements has no memory.
  ScalarId HasElements(const Buffer& buffer, ScalarId mask);

  GraphLowering& g_;
  std::string origin_;
  std::vector<Axis> axes_;
  std::vector<kiln::Store> stores_;
  ScalarId not_empty_ = kiln::Store::kNoMask;
};

// The node that is being lowered: the argument of a family's functions.
struct NodeLowering {
  GraphLowering& g;
  const Node& node;
  std::string origin;  // "add"

  const Argument& arg(size_t i) const { return node.args[i]; }
  ValueId tensor(size_t i) const { return node.args[i].value(); }
  const TensorMeta& meta(size_t i) const { return g.meta(tensor(i)); }
  ValueId result(size_t i = 0) const { return node.results[i]; }
  const TensorMeta& result_meta(size_t i = 0) const {
    return g.meta(node.results[i]);
  }
  // A number that the generated code depends on; `otherwise` if the argument is absent. A
  // symbol is fixed at its hint by a guard.
  double Number(size_t i, double otherwise = 0) const;
  // The same as a constant of `type` in the body. Keeps all digits of an integer.
  ScalarId Constant(BodyBuilder& body, DType type, size_t i,
                    double otherwise = 0) const;
  int64_t Int(size_t i) const;
  // The integers of a list, or a single one. Empty if the argument is absent.
  absl::InlinedVector<int64_t, 4> Ints(size_t i) const;
  // Integers that are dimensions of `rank`; negative ones count from the end, and rank 0
  // counts as 1.
  absl::InlinedVector<size_t, 4> Dims(size_t i, size_t rank) const;
  size_t Dim(size_t i, size_t rank) const { return Dims(i, rank).front(); }
  NestWriter Write() const { return NestWriter(g, origin); }
};

// Lowers an operator of Handling::kLower. `op` is that of its LowerRow.
using LowerFn = absl::Status (*)(NodeLowering& n, ScalarOp op);
struct LowerRow {
  absl::string_view name;
  LowerFn lower;
  ScalarOp op = ScalarOp::kAdd;
};

// The families.
absl::Span<const LowerRow> PointwiseLowerings();
absl::Span<const LowerRow>
SelectLowerings();  // where, clamp, masked_fill, casts
absl::Span<const LowerRow> ReductionLowerings();
absl::Span<const LowerRow> FactoryLowerings();
absl::Span<const LowerRow> IndexLowerings();
absl::Span<const LowerRow> ScatterLowerings();
absl::Span<const LowerRow> ScatterReduceLowerings();
absl::Span<const LowerRow> CatLowerings();
absl::Span<const LowerRow> PoolLowerings();
absl::Span<const LowerRow> RandomLowerings();
absl::Span<const LowerRow> SortLowerings();
absl::Span<const LowerRow> AssertionLowerings();

// The value of an index tensor at `at` (broadcast), as an index of a dimension of `size`.
SymExpr IndexAt(NestWriter& nest, ValueId v, const DimVector& at,
                const SymExpr& size, IndexRange range);

// The range for operators that index by lists: kWrapIndex checks, other rows trust.
IndexRange RangeOf(ScalarOp row);

// The element of the base that index.Tensor or index_put accesses for element `at` of the
// result or of the values: one expression for each dimension of the base.
struct IndexedAccess {
  DimVector index;
};
absl::StatusOr<IndexedAccess> PlaceIndices(
    NestWriter& nest, const GraphLowering& g, const Argument::List& indices,
    const DimVector& base_sizes, const DimVector& at, IndexRange range);

// Lowers operators of Handling::kView: places the results on the input's buffer.
absl::Status LowerView(NodeLowering& n);
// Lowers operators of Handling::kStep.
absl::Status LowerStep(NodeLowering& n);
absl::Status LowerAttention(NodeLowering& n);
absl::Status LowerAttentionBackward(NodeLowering& n);

// PyTorch's result type for tensors, 0-dim tensors and numbers.
DType PromoteArguments(const Graph& graph, absl::Span<const Argument> args);

// An int, float or bool; none for a symbol.
std::optional<double> LiteralOf(const Argument& number);
bool BoolOf(const Argument& argument);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOWERING_H_
