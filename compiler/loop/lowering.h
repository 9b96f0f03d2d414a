#ifndef KILN_COMPILER_LOOP_LOWERING_H_
#define KILN_COMPILER_LOOP_LOWERING_H_

// Shared by the families of lowerings: where each value of the graph lies, and a
// writer for the nest of one node. Only files of this folder include it.

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

// A value of the graph as a window on a buffer: one index for each dimension of the
// buffer, over Axis(k) for dimension k of the value. A dimension of size 1 has index 0,
// and its axis does not occur.
struct PlacedValue {
  BufferId buffer = 0;
  DimVector index;
  bool placed = false;
};

// The lowering of one graph. The walk in lower_graph.cc fills it.
struct GraphLowering {
  const Graph& graph;
  const ArtifactOptions& options;
  LoopProgram program;
  std::vector<PlacedValue> values;  // by ValueId
  std::vector<uint32_t> uses;       // of each value, outputs counted
  // What leaves for each output, where that is a value.
  std::vector<std::optional<ValueId>> outputs;
  std::vector<DimVector>
      output_strides;  // wanted of a value; empty: its meta's
  // By ValueId: whether a result lies channels-last (assign_layouts.h).
  std::vector<bool> channels_last;
  // Channels-last copies of other values that convolutions share, by ValueId.
  absl::flat_hash_map<uint32_t, View> channels_last_copies;
  int64_t random_streams = 0;
  // Of the node that is being lowered, and so of everything that is written now.
  ClientNodes client_nodes;
  // What the client calls them; `origin` where none asked.
  std::vector<std::string> OriginsOf(absl::string_view origin) const;

  GraphLowering(const Graph& g, const ArtifactOptions& o)
      : graph(g), options(o) {}

  const TensorMeta& meta(ValueId v) const { return graph.meta(v); }
  const ShapeEnv& shapes() const { return program.shapes; }
  BufferId AddBuffer(BufferKind kind, DType dtype, DimVector sizes,
                     DimVector strides);
  // A dense temporary for a result, placed as the whole of it.
  BufferId PlaceResult(ValueId result);
  // The value as strides on its buffer; none when its index is not linear.
  std::optional<View> AsView(ValueId v) const;
  // A contiguous copy of the value, or one with these dense strides, as a view.
  View CopyOf(ValueId v, absl::string_view origin);
  View CopyOf(ValueId v, absl::string_view origin, DimVector strides);
};

// The value whose memory `v` shows.
ValueId MemoryOf(const Graph& graph, ValueId v);

// Index 0 for dimensions of size 1, Axis(k) for dimension k else.
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

  // Appends an axis for each size but those of 1, and gives the index of each
  // dimension. Reduction axes come last.
  DimVector Iterate(const DimVector& sizes, bool reduction = false);

  // Elements of `v` at one index a dimension of it; in its own dtype, or cast.
  ScalarId Load(ValueId v, const DimVector& at);
  ScalarId LoadAs(ValueId v, const DimVector& at, DType dtype) {
    return body.Cast(dtype, Load(v, at));
  }
  ScalarId MaskedLoad(ValueId v, const DimVector& at, ScalarId mask);
  // Of a buffer that this node's nests share, in the buffer's dtype.
  ScalarId LoadCell(BufferId buffer, const DimVector& at) {
    return body.Load(buffer, g_.program.buffers[buffer].dtype, at);
  }
  // Broadcast to an index of higher or equal rank, as PyTorch broadcasts.
  ScalarId LoadBroadcast(ValueId v, const DimVector& at, DType dtype);

  // A loaded index as an index of a dimension of `size`. What is loaded and
  // stored from here on may depend on it.
  SymExpr IndexInto(const SymExpr& size, ScalarId index, IndexRange range);

  // A number argument, or a tensor argument broadcast, as `dtype`.
  absl::StatusOr<ScalarId> Operand(const Argument& argument,
                                   const DimVector& at, DType dtype);

  // Stores to the buffer of `result`, which is placed if it is not yet. A
  // result that nobody reads is not stored.
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
  // `mask`, and that no dimension which an index looks into is empty.
  ScalarId Guarded(ScalarId mask);
  // `mask`, and that no dimension along which `buffer` stands still is empty:
  // an address that no axis moves is read where the axis runs over nothing too,
  // and an input without elements has no memory.
  ScalarId HasElements(const Buffer& buffer, ScalarId mask);

  GraphLowering& g_;
  std::string origin_;
  std::vector<Axis> axes_;
  std::vector<kiln::Store> stores_;
  ScalarId not_empty_ = kiln::Store::kNoMask;
};

// One node being lowered: what a family's function is given.
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
  // A number that the generated code must know; `otherwise` if the argument is absent.
  // A symbol is fixed at its hint, by a guard.
  double Number(size_t i, double otherwise = 0) const;
  // The same in the code, of that type; an integer's digits are all kept.
  ScalarId Constant(BodyBuilder& body, DType type, size_t i,
                    double otherwise = 0) const;
  int64_t Int(size_t i) const;
  // Of a list, or of one; none: nothing is given.
  absl::InlinedVector<int64_t, 4> Ints(size_t i) const;
  // As Ints, dimensions of `rank`, wrapped; rank 0 counts as 1.
  absl::InlinedVector<size_t, 4> Dims(size_t i, size_t rank) const;
  size_t Dim(size_t i, size_t rank) const { return Dims(i, rank).front(); }
  NestWriter Write() const { return NestWriter(g, origin); }
};

// How an operator of Handling::kLower is lowered; `op` is its row's.
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

// An index tensor's value at `at` (broadcast) as an index of a dimension of
// `size`.
SymExpr IndexAt(NestWriter& nest, ValueId v, const DimVector& at,
                const SymExpr& size, IndexRange range);

// Of the operators that index by lists: kWrapIndex looks, others trust.
IndexRange RangeOf(ScalarOp row);

// Where index.Tensor and index_put reach: one expression a dimension of the
// base, for element `at` of the result (or of the values).
struct IndexedAccess {
  DimVector index;
};
absl::StatusOr<IndexedAccess> PlaceIndices(
    NestWriter& nest, const GraphLowering& g, const Argument::List& indices,
    const DimVector& base_sizes, const DimVector& at, IndexRange range);

// Operators of Handling::kView: places the results on the input's buffer.
absl::Status LowerView(NodeLowering& n);
// Operators of Handling::kStep, and some of them.
absl::Status LowerStep(NodeLowering& n);
absl::Status LowerAttention(NodeLowering& n);
absl::Status LowerAttentionBackward(NodeLowering& n);

// PyTorch's result type of tensors, 0-dim tensors and numbers.
DType PromoteArguments(const Graph& graph, absl::Span<const Argument> args);

// An int, float or bool; none for a symbol.
std::optional<double> LiteralOf(const Argument& number);
bool BoolOf(const Argument& argument);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOWERING_H_
