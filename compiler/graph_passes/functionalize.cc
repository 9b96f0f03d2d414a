#include "compiler/graph_passes/functionalize.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/op_table.h"
#include "compiler/graph/refused_nodes.h"
#include "compiler/graph_passes/emitter.h"
#include "compiler/graph_passes/undo_view.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// What is known of an old value: the memory it lies in, and how it is seen.
struct Storage {
  uint32_t base;  // the value that owns the memory: itself when no view
  // When a view: the node that made it from its first argument, and which of
  // that node's results it is.
  uint32_t view_node = Value::kNoNode;
  uint32_t view_result = 0;
  ValueId parent{0};
};

// The value whose memory `v` shows.
ValueId ViewedValue(const Graph& graph, ValueId v) {
  for (;;) {
    const uint32_t node = graph.value(v).node;
    if (node == Value::kNoNode ||
        graph.nodes()[node].op->handling != Handling::kView) {
      return v;
    }
    v = graph.nodes()[node].args[0].value();
  }
}

// Whether the node is a batch norm in training that has running statistics. Its
// schema does not say that it writes them.
bool UpdatesStatistics(const Node& node) {
  static const OpDef& kBatchNorm = KnownOp("aten.native_batch_norm.default");
  return node.op == &kBatchNorm && node.args[5] == Argument(true) &&
         node.args[3].is_value() && node.args[4].is_value();
}

class Functionalizer {
 public:
  explicit Functionalizer(Graph& graph)
      : rewriter_(graph), e_(graph), num_inputs_(0) {}

  absl::Status Run() {
    const uint32_t old_values = CountOldValues();
    storages_.resize(old_values);
    version_.assign(old_values, 0);
    seen_.assign(old_values, 0);
    current_.assign(old_values, ValueId{0});
    for (uint32_t v = 0; v < num_inputs_; ++v) {
      storages_[v] = {v};
      current_[v] = ValueId{v};
    }
    for (uint32_t i = 0; i < rewriter_.num_old_nodes(); ++i) {
      const absl::Status status = Visit(i);
      if (!status.ok()) return Refused(i, status);
      rewriter_.Attribute(i);
    }
    return Close();
  }

 private:
  // What comes after a node that could not be written is not known.
  absl::Status Refused(uint32_t i, const absl::Status& status) {
    RefusedNodes refused;
    if (!refused.Take(rewriter_.old_node(i).client_nodes, status))
      return status;
    if (i + 1 < rewriter_.num_old_nodes()) refused.SetMore();
    return refused.ToStatus();
  }

  // Inputs and constants come first, then the results of each node.
  uint32_t CountOldValues() {
    num_inputs_ = rewriter_.graph().num_values();
    uint32_t count = num_inputs_;
    for (uint32_t i = 0; i < rewriter_.num_old_nodes(); ++i) {
      count += static_cast<uint32_t>(rewriter_.old_node(i).results.size());
    }
    return count;
  }

  // The new value of an old one, as its memory is now. A view of memory that
  // was written since is taken again.
  absl::StatusOr<ValueId> Now(ValueId old) {
    const Storage& s = storages_[old.index];
    if (seen_[old.index] == version_[s.base]) return current_[old.index];
    ASSIGN_OR_RETURN(const ValueId parent, Now(s.parent));
    const Node& view = rewriter_.old_node(s.view_node);
    Emitter::Args args(view.args.begin(), view.args.end());
    args[0] = parent;
    const auto results = e_.CallAll(*view.op, std::move(args));
    RETURN_IF_ERROR(e_.status());
    Know(old, results[s.view_result]);
    return current_[old.index];
  }

  void Know(ValueId old, ValueId now) {
    current_[old.index] = now;
    seen_[old.index] = version_[storages_[old.index].base];
  }

  absl::StatusOr<Argument> Now(const Argument& arg) {
    if (arg.is_value()) {
      ASSIGN_OR_RETURN(const ValueId now, Now(arg.value()));
      return Argument(now);
    }
    if (!arg.is_list()) return arg;
    Argument::List items;
    for (const Argument& item : arg.list()) {
      ASSIGN_OR_RETURN(Argument now, Now(item));
      items.emplace_back(std::move(now));
    }
    return Argument(std::move(items));
  }

  absl::StatusOr<Emitter::Args> NowArgs(const Node& node) {
    Emitter::Args args;
    for (const Argument& arg : node.args) {
      ASSIGN_OR_RETURN(Argument now, Now(arg));
      args.push_back(std::move(now));
    }
    return args;
  }

  absl::Status Visit(uint32_t i) {
    const Node& node = rewriter_.old_node(i);
    if (node.op->handling == Handling::kMutate) return Mutate(node);
    if (UpdatesStatistics(node)) return MutateStatistics(i);
    ASSIGN_OR_RETURN(const auto results, CopyNode(i));
    const bool view = node.op->handling == Handling::kView;
    for (uint32_t r = 0; r < node.results.size(); ++r) {
      const ValueId old = node.results[r];
      Storage& s = storages_[old.index];
      s.base = old.index;
      if (view) {
        s.parent = node.args[0].value();
        s.base = storages_[s.parent.index].base;
        s.view_node = i;
        s.view_result = r;
      }
      Know(old, results[r]);
    }
    return absl::OkStatus();
  }

  // The node under its arguments as they are now. As long as nothing has been
  // written these are what they were.
  absl::StatusOr<std::vector<ValueId>> CopyNode(uint32_t i) {
    const Node& node = rewriter_.old_node(i);
    std::vector<ValueId> results;
    if (!written_) {
      rewriter_.Keep(i);
      for (ValueId old : node.results) results.push_back(rewriter_.Map(old));
      return results;
    }
    ASSIGN_OR_RETURN(Emitter::Args args, NowArgs(node));
    const auto made = e_.CallAll(*node.op, std::move(args));
    RETURN_IF_ERROR(e_.status());
    rewriter_.Replace(i, made);
    results.assign(made.begin(), made.end());
    return results;
  }

  // An in-place node: its first argument gets a new value, and so has its
  // result, which is the same memory.
  absl::Status Mutate(const Node& node) {
    const ValueId self = node.args[0].value();
    ASSIGN_OR_RETURN(const ValueId value, NewContents(node));
    RETURN_IF_ERROR(Write(self, value));
    for (ValueId result : node.results) {
      storages_[result.index] = storages_[self.index];
      ASSIGN_OR_RETURN(current_[result.index], Now(self));
      seen_[result.index] = seen_[self.index];
    }
    return absl::OkStatus();
  }

  // The functional batch norm gives the new running statistics as results 3
  // and 4, for arguments 3 and 4.
  absl::Status MutateStatistics(uint32_t i) {
    static const OpDef& kFunctional =
        KnownOp("aten._native_batch_norm_legit_functional.default");
    const Node& node = rewriter_.old_node(i);
    ASSIGN_OR_RETURN(Emitter::Args args, NowArgs(node));
    const auto results = e_.CallAll(kFunctional, std::move(args));
    RETURN_IF_ERROR(e_.status());
    for (uint32_t r = 0; r < node.results.size(); ++r) {
      storages_[node.results[r].index].base = node.results[r].index;
      Know(node.results[r], results[r]);
    }
    rewriter_.Replace(
        i, absl::MakeConstSpan(results).subspan(0, node.results.size()));
    RETURN_IF_ERROR(Write(node.args[3].value(), results[3]));
    return Write(node.args[4].value(), results[4]);
  }

  // What the node writes, with the dtype and sizes of its first argument.
  absl::StatusOr<ValueId> NewContents(const Node& node) {
    static const OpDef& kCopy = KnownOp("aten.copy.default");
    if (node.op->functional == nullptr) {
      return MakeError(ErrorReason::kUnsupportedOp,
                       absl::StrCat(node.op->name, ": has no functional form"));
    }
    ASSIGN_OR_RETURN(Emitter::Args args, NowArgs(node));
    const TensorMeta self = e_.meta(args[0].value());
    ValueId value{0};
    if (node.op->functional == &kCopy) {
      // No node of its own: the source is the value.
      value = e_.Expand(e_.ToDType(args[1].value(), self.dtype), self.sizes);
    } else {
      value = e_.ToDType(e_.Call(*node.op->functional, std::move(args)),
                         self.dtype);
    }
    RETURN_IF_ERROR(e_.status());
    return value;
  }

  // Gives the memory of `old` new contents: through the views that lead to its
  // base, one by one.
  absl::Status Write(ValueId old, ValueId value) {
    const Storage s = storages_[old.index];
    if (s.base != old.index && s.view_node != Value::kNoNode) {
      ASSIGN_OR_RETURN(const ValueId parent, Now(s.parent));
      ASSIGN_OR_RETURN(const ValueId whole,
                       UndoView(rewriter_.old_node(s.view_node), s.view_result,
                                parent, value, e_));
      RETURN_IF_ERROR(Write(s.parent, whole));
    } else {
      ++version_[s.base];
      written_ = true;
      current_[s.base] = value;
      seen_[s.base] = version_[s.base];
    }
    Know(old, value);
    return absl::OkStatus();
  }

  // Outputs and inputs get what their memory holds at the end.
  absl::Status Close() {
    Graph& graph = rewriter_.graph();
    std::vector<GraphOutput> outputs = graph.outputs;
    for (GraphOutput& output : outputs) {
      if (ValueId* id = std::get_if<ValueId>(&output.what)) {
        ASSIGN_OR_RETURN(*id, Now(*id));
      }
    }
    std::vector<Mutation> mutations;
    for (const GraphInput& input : graph.inputs) {
      const ValueId* id = std::get_if<ValueId>(&input.what);
      if (id == nullptr || version_[id->index] == 0) continue;
      ValueId value = current_[id->index];
      // An input's memory may be overwritten before it is read.
      if (ViewedValue(graph, value).index < num_inputs_) {
        value = e_.Contiguous(value);
      }
      mutations.push_back({*id, value});
    }
    RETURN_IF_ERROR(e_.status());
    graph.outputs.clear();
    graph.mutations.clear();
    rewriter_.Finish();
    graph.outputs = std::move(outputs);
    graph.mutations = std::move(mutations);
    return absl::OkStatus();
  }

  GraphRewriter rewriter_;
  Emitter e_;
  uint32_t num_inputs_;  // with the constants
  bool written_ = false;
  // By old value.
  std::vector<Storage> storages_;
  std::vector<uint32_t> version_;  // of a base: how often it was written
  std::vector<uint32_t> seen_;     // the base's version that current_ shows
  std::vector<ValueId> current_;   // the new value
};

}  // namespace

absl::StatusOr<Changed> Functionalize(Graph& graph, const PassEnv&) {
  bool any = false;
  for (const Node& node : graph.nodes()) {
    any = any || node.op->handling == Handling::kMutate ||
          UpdatesStatistics(node);
  }
  if (!any) return Changed::kNo;
  RETURN_IF_ERROR(Functionalizer(graph).Run());
  return Changed::kYes;
}

}  // namespace kiln
