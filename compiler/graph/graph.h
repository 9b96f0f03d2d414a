#ifndef KILN_COMPILER_GRAPH_GRAPH_H_
#define KILN_COMPILER_GRAPH_GRAPH_H_

// The tensor program, as the compiler works on it: SSA over operators of the
// table. A value knows its meta; a node its operator, its arguments in schema
// order with defaults filled in, and its results.
//
// A Graph is edited in place, by passes only. Not thread-safe.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/graph/argument.h"
#include "compiler/graph/op_def.h"
#include "compiler/graph/tensor_meta.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

struct GraphInput {
  // A tensor value, or an integer passed by value.
  std::variant<ValueId, SymExpr> what;
  uint32_t alignment_bytes = 1;  // of its address, as the caller promises
  bool donated = false;          // its memory may be written to
};

struct GraphConstant {
  ValueId value;
  std::string data;  // little-endian, contiguous
};

struct GraphOutput {
  std::variant<NoneArgument, ValueId, SymExpr> what;
  DimVector
      strides;  // that the caller must see; those of the value's meta at import
};

// The value that an input's memory must hold when the run is over.
struct Mutation {
  ValueId input;
  ValueId value;
};

struct Value {
  TensorMeta meta;
  std::string name;  // for text: without '%', made unique there; may be empty
  static constexpr uint32_t kNoNode = ~0u;
  uint32_t node =
      kNoNode;  // index of the producer in nodes(); kNoNode: input or constant
  uint32_t result = 0;  // which of its results
};

using ClientNodes = absl::InlinedVector<uint32_t, 1>;

struct Node {
  const OpDef* op;
  Arguments args;
  ValueIds results;
  // Of the client's graph, those that this one does the work of, in order. None
  // where no client asked: in a graph that was written as text.
  ClientNodes client_nodes;
};

class Graph {
 public:
  std::string name;
  DeviceType device = DeviceType::kCpu;  // of all its tensors
  ShapeEnv shapes;
  std::vector<GraphInput> inputs;
  std::vector<GraphConstant> constants;
  std::vector<GraphOutput> outputs;
  std::vector<Mutation> mutations;
  // Of each of the client's nodes the operator that its program names, which
  // kernels are called by: "native_layer_norm", "_softmax". Empty in a graph that
  // was written as text.
  std::vector<std::string> client_operators;
  // Of each of them what the client has kernels called by in place of that, which
  // may be nothing. Empty: by operators. Not in the graph's text.
  std::vector<std::string> client_words;
  // For people: a line for each attention that was taken apart, with the reason
  // (attention_choice.h). Not in the graph's text.
  std::vector<std::string> taken_apart;

  const std::vector<Node>& nodes() const { return nodes_; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  const TensorMeta& meta(ValueId id) const { return values_[id.index].meta; }
  uint32_t num_values() const { return static_cast<uint32_t>(values_.size()); }

  ValueId AddInput(std::string name, TensorMeta meta, uint32_t alignment_bytes);
  ValueId AddConstant(std::string name, TensorMeta meta, std::string data);

  // Appends a node whose metas are inferred. `args` in schema order; missing
  // trailing ones take their defaults. MALFORMED_GRAPH from inference.
  absl::StatusOr<ValueIds> AddNode(const OpDef& op, Arguments args,
                                   absl::string_view result_name = "");

  // For the reader of the wire: makes room for this many nodes and values.
  void Reserve(size_t nodes, size_t values) {
    nodes_.reserve(nodes);
    values_.reserve(values);
  }
  // For the readers of text and wire: what was written there counts.
  void SetName(ValueId id, std::string name) {
    values_[id.index].name = std::move(name);
  }
  void SetMeta(ValueId id, TensorMeta meta) {
    values_[id.index].meta = std::move(meta);
  }

  // For the reader of the wire: the latest node is node `number` of the client's.
  void SetClientNode(uint32_t number) { nodes_.back().client_nodes = {number}; }

  // Keeps the nodes whose flag is set, in order. Says whether any went.
  bool RetainNodes(const std::vector<bool>& keep);

  // Calls `visit` for every tensor value that a node reads, also in lists.
  static void VisitValues(const Node& node,
                          absl::FunctionRef<void(ValueId)> visit);

 private:
  friend class GraphRewriter;
  ValueId AddValue(Value value);
  // A result that was left out reads as an absent argument.
  absl::Status DropLeftOut(const OpDef& op, Arguments& args) const;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
};

// How passes edit: a new node list is written beside the old one.
//
//   GraphRewriter rewriter(graph);
//   for (uint32_t i = 0; i < rewriter.num_old_nodes(); ++i) {
//     if (wants(rewriter.old_node(i))) {
//       ASSIGN_OR_RETURN(auto results,
//                        rewriter.graph().AddNode(op, {...mapped args...}));
//       rewriter.Replace(i, results);
//     } else {
//       rewriter.Keep(i);
//     }
//   }
//   rewriter.Finish();   // outputs and mutations remapped, values renumbered
class GraphRewriter {
 public:
  explicit GraphRewriter(Graph& graph);
  uint32_t num_old_nodes() const {
    return static_cast<uint32_t>(old_nodes_.size());
  }
  const Node& old_node(uint32_t i) const { return old_nodes_[i]; }
  const TensorMeta& old_meta(ValueId v) const {
    return old_values_[v.index].meta;
  }
  Graph& graph() { return graph_; }  // the new one; its AddNode appends

  ValueId Map(ValueId old) const;  // the new value of an old one
  Argument Map(const Argument& old) const;
  // The nodes that were added since the last call do the work of the i-th old one:
  // their client_nodes are its own. Keep and Replace say so themselves.
  void Attribute(uint32_t i);
  // Copies the node, arguments mapped; metas are inferred anew where those of
  // its arguments have changed.
  void Keep(uint32_t i);
  // `results` in order of the old ones, of equal dtype and sizes. Other strides
  // are allowed, and change what as_strided of them means.
  void Replace(uint32_t i, absl::Span<const ValueId> results);

  void Finish();

 private:
  ValueId CopyValue(const Value& old, uint32_t node, uint32_t result);

  Graph& graph_;
  std::vector<Node> old_nodes_;
  std::vector<Value> old_values_;
  std::vector<ValueId> map_;
  size_t attributed_ = 0;  // of the new nodes
};

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_GRAPH_H_
