#include "compiler/graph/graph_verifier.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/bind_arguments.h"
#include "compiler/graph/graph_text.h"
#include "compiler/graph/infer_meta.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class GraphVerifier {
 public:
  explicit GraphVerifier(const Graph& graph)
      : graph_(graph), shapes_(graph.shapes) {}

  absl::Status Verify() {
    RETURN_IF_ERROR(CheckValues());
    for (uint32_t i = 0; i < graph_.nodes().size(); ++i) {
      RETURN_IF_ERROR(CheckNode(i));
    }
    RETURN_IF_ERROR(CheckOutputs());
    RETURN_IF_ERROR(CheckMutations());
    return CheckConstants();
  }

 private:
  absl::Status Broken(absl::string_view rule, absl::string_view where,
                      absl::string_view what) const {
    return absl::InternalError(absl::StrCat(rule, " at ", where, ": ", what));
  }
  std::string Name(ValueId id) const {
    return absl::StrCat("%", id.index < graph_.num_values()
                                 ? ValueNames(graph_)[id.index]
                                 : absl::StrCat("#", id.index));
  }
  std::string NodeName(const Node& node) const {
    return absl::StrCat(node.results.empty() ? "?" : Name(node.results[0]),
                        " = ", ShortOpName(*node.op));
  }

  absl::Status CheckValues() {
    std::vector<int> sources(graph_.num_values(), 0);
    for (const GraphInput& input : graph_.inputs) {
      const ValueId* id = std::get_if<ValueId>(&input.what);
      if (id == nullptr) continue;
      if (id->index >= graph_.num_values()) {
        return Broken("G1", Name(*id), "an input that is no value");
      }
      ++sources[id->index];
    }
    for (const GraphConstant& constant : graph_.constants) {
      if (constant.value.index >= graph_.num_values()) {
        return Broken("G1", Name(constant.value), "a constant without a value");
      }
      ++sources[constant.value.index];
    }
    for (uint32_t i = 0; i < graph_.num_values(); ++i) {
      const Value& value = graph_.value(ValueId{i});
      const bool is_result = value.node != Value::kNoNode;
      if (is_result != (sources[i] == 0) || sources[i] > 1) {
        return Broken("G1", Name(ValueId{i}),
                      absl::StrCat(sources[i], " inputs or constants",
                                   is_result ? " and a producer" : ""));
      }
      if (is_result &&
          (value.node >= graph_.nodes().size() ||
           value.result >= graph_.nodes()[value.node].results.size() ||
           graph_.nodes()[value.node].results[value.result] != ValueId{i})) {
        return Broken("G1", Name(ValueId{i}), "its producer does not name it");
      }
      RETURN_IF_ERROR(CheckSymbolsOf(value.meta, ValueId{i}));
    }
    return absl::OkStatus();
  }

  bool Declared(const SymExpr& e) const {
    bool all = true;
    e.VisitVars([&](Var var) {
      all = all && var.kind == Var::Kind::kSymbol &&
            var.index < graph_.shapes.symbols.size();
    });
    return all;
  }
  absl::Status CheckSymbolsOf(const TensorMeta& meta, ValueId id) const {
    bool declared = Declared(meta.offset);
    for (const SymExpr& e : meta.sizes) declared = declared && Declared(e);
    for (const SymExpr& e : meta.strides) declared = declared && Declared(e);
    if (declared) return absl::OkStatus();
    return Broken("G5", Name(id),
                  absl::StrCat("undeclared symbol in ", ToText(meta)));
  }

  absl::Status CheckNode(uint32_t index) {
    const Node& node = graph_.nodes()[index];
    absl::Status order;
    Graph::VisitValues(node, [&](ValueId id) {
      if (!order.ok()) return;
      if (id.index >= graph_.num_values()) {
        order = Broken("G2", NodeName(node),
                       absl::StrCat("reads no value ", Name(id)));
        return;
      }
      const Value& value = graph_.value(id);
      if (value.node != Value::kNoNode && value.node >= index) {
        order = Broken("G2", NodeName(node),
                       absl::StrCat("input ", Name(id), " is defined later"));
      } else if (!value.meta.defined) {
        order = Broken("G2", NodeName(node),
                       absl::StrCat("input ", Name(id), " was left out"));
      }
    });
    RETURN_IF_ERROR(order);
    if (node.args.size() != node.op->schema.params.size()) {
      return Broken(
          "G3", NodeName(node),
          absl::StrCat("found ", node.args.size(), " arguments, expected ",
                       node.op->schema.params.size()));
    }
    const absl::StatusOr<Arguments> bound = BindArguments(*node.op, node.args);
    if (!bound.ok()) {
      return Broken("G3", NodeName(node), bound.status().message());
    }
    if (*bound != node.args) {
      return Broken("G3", NodeName(node), "arguments not in their last form");
    }
    return CheckMetas(node);
  }

  absl::Status CheckMetas(const Node& node) {
    const absl::StatusOr<TensorMetas> metas = InferMeta(
        *node.op, node.args,
        [this](const Argument& a) -> const TensorMeta& {
          return graph_.meta(a.value());
        },
        shapes_, graph_.device);
    if (!metas.ok()) {
      return Broken("G4", NodeName(node), metas.status().message());
    }
    if (metas->size() != node.results.size()) {
      return Broken("G4", NodeName(node),
                    absl::StrCat("found ", node.results.size(),
                                 " results, inference gives ", metas->size()));
    }
    for (size_t i = 0; i < metas->size(); ++i) {
      const TensorMeta& found = graph_.meta(node.results[i]);
      const TensorMeta& due = (*metas)[i];
      if (!found.defined && !due.defined) continue;
      if (found == due) continue;
      return Broken("G4", NodeName(node),
                    absl::StrCat("found ", ToText(found), ", inference gives ",
                                 ToText(due)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckOutputs() const {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const GraphOutput& output = graph_.outputs[i];
      const std::string where = absl::StrCat("output ", i);
      if (const SymExpr* e = std::get_if<SymExpr>(&output.what)) {
        if (!Declared(*e)) return Broken("G5", where, e->ToString());
      }
      const ValueId* id = std::get_if<ValueId>(&output.what);
      if (id == nullptr) continue;
      if (id->index >= graph_.num_values()) {
        return Broken("G6", where, "is no value");
      }
      if (output.strides.size() != graph_.meta(*id).sizes.size()) {
        return Broken("G6", where,
                      absl::StrCat("strides ", ToText(output.strides), " for ",
                                   ToText(graph_.meta(*id))));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckMutations() const {
    std::vector<bool> mutated(graph_.num_values(), false);
    for (const Mutation& mutation : graph_.mutations) {
      bool is_input = false;
      for (const GraphInput& input : graph_.inputs) {
        const ValueId* id = std::get_if<ValueId>(&input.what);
        is_input = is_input || (id != nullptr && *id == mutation.input);
      }
      if (!is_input || mutation.value.index >= graph_.num_values()) {
        return Broken("G7", Name(mutation.input), "is not an input");
      }
      if (mutated[mutation.input.index]) {
        return Broken("G7", Name(mutation.input), "is mutated twice");
      }
      mutated[mutation.input.index] = true;
      const TensorMeta& due = graph_.meta(mutation.input);
      const TensorMeta& found = graph_.meta(mutation.value);
      if (due.dtype != found.dtype || due.sizes != found.sizes) {
        return Broken(
            "G7", Name(mutation.input),
            absl::StrCat("found ", ToText(found), ", expected ", ToText(due)));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckConstants() const {
    for (const GraphConstant& constant : graph_.constants) {
      const TensorMeta& meta = graph_.meta(constant.value);
      const SymExpr bytes = meta.numel() * SizeInBytes(meta.dtype);
      if (!bytes.Is(static_cast<int64_t>(constant.data.size())) ||
          meta.strides != ContiguousStrides(meta.sizes)) {
        return Broken("G8", Name(constant.value),
                      absl::StrCat("found ", constant.data.size(),
                                   " bytes for ", ToText(meta)));
      }
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  ShapeEnv shapes_;  // a copy: looking takes no guards
};

}  // namespace

absl::Status VerifyGraph(const Graph& graph) {
  return GraphVerifier(graph).Verify();
}

}  // namespace kiln
