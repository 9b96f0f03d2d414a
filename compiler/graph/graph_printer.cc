#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/graph/graph_text.h"
#include "compiler/graph/text_cursor.h"

namespace kiln {
namespace {

class GraphPrinter {
 public:
  explicit GraphPrinter(const Graph& graph)
      : graph_(graph), names_(ValueNames(graph)) {}

  std::string Print() {
    PrintHeader();
    for (const Guard& guard : graph_.shapes.guards()) PrintGuard(guard);
    for (const GraphConstant& constant : graph_.constants) {
      absl::StrAppend(&out_, "  ", Name(constant.value), " = constant ",
                      Meta(graph_.meta(constant.value)), " 0x",
                      absl::BytesToHexString(constant.data), "\n");
    }
    for (const Node& node : graph_.nodes()) PrintNode(node);
    for (const Mutation& mutation : graph_.mutations) {
      absl::StrAppend(&out_, "  mutate ", Name(mutation.input), " = ",
                      Name(mutation.value), "\n");
    }
    absl::StrAppend(&out_, "}\n");
    return std::move(out_);
  }

 private:
  std::string Name(ValueId id) const {
    return absl::StrCat("%", names_[id.index]);
  }
  std::string VarName(Var var) const {
    const auto& symbols = graph_.shapes.symbols;
    return var.kind == Var::Kind::kSymbol && var.index < symbols.size()
               ? symbols[var.index].name
               : SymExpr::Of(var).ToString();
  }
  std::string Expr(const SymExpr& e) const {
    return e.ToString([this](Var var) { return VarName(var); });
  }
  std::string Meta(const TensorMeta& meta) const {
    return ToText(meta, [this](Var var) { return VarName(var); });
  }
  std::string Dims(const DimVector& dims) const {
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i) {
      absl::StrAppend(&text, i == 0 ? "" : ", ", Expr(dims[i]));
    }
    return absl::StrCat(text, "]");
  }

  void PrintHeader() {
    absl::StrAppend(&out_, "graph @", graph_.name, "(");
    const char* comma = "";
    for (const SymbolFacts& symbol : graph_.shapes.symbols) {
      absl::StrAppend(&out_, comma, symbol.name, " in [", symbol.range.min,
                      ", ", symbol.range.max, "] = ", symbol.hint);
      comma = ", ";
    }
    absl::StrAppend(&out_,
                    graph_.device == DeviceType::kCuda ? ") on cuda(" : ")(");
    comma = "";
    for (const GraphInput& input : graph_.inputs) {
      absl::StrAppend(&out_, comma);
      PrintInput(input);
      comma = ", ";
    }
    absl::StrAppend(&out_, ") -> (");
    comma = "";
    for (const GraphOutput& output : graph_.outputs) {
      absl::StrAppend(&out_, comma);
      PrintOutput(output);
      comma = ", ";
    }
    absl::StrAppend(&out_, ") {\n");
  }

  void PrintInput(const GraphInput& input) {
    if (const SymExpr* e = std::get_if<SymExpr>(&input.what)) {
      absl::StrAppend(&out_, "int ", Expr(*e));
      return;
    }
    const ValueId id = std::get<ValueId>(input.what);
    const TensorMeta& meta = graph_.meta(id);
    absl::StrAppend(&out_, Name(id), ": ", Meta(meta));
    if (input.alignment_bytes != kTextAlignment) {
      absl::StrAppend(&out_, " align ", input.alignment_bytes);
    }
    if (input.donated) absl::StrAppend(&out_, " donated");
  }

  void PrintOutput(const GraphOutput& output) {
    if (std::holds_alternative<NoneArgument>(output.what)) {
      absl::StrAppend(&out_, "none");
    } else if (const SymExpr* e = std::get_if<SymExpr>(&output.what)) {
      absl::StrAppend(&out_, Expr(*e));
    } else {
      const ValueId id = std::get<ValueId>(output.what);
      absl::StrAppend(&out_, Name(id));
      if (output.strides != graph_.meta(id).strides) {
        absl::StrAppend(&out_, " strides ", Dims(output.strides));
      }
    }
  }

  void PrintGuard(const Guard& guard) {
    absl::string_view op;
    switch (guard.op) {
      case GuardOp::kEq:
        op = " == ";
        break;
      case GuardOp::kNe:
        op = " != ";
        break;
      case GuardOp::kLt:
        op = " < ";
        break;
      case GuardOp::kLe:
        op = " <= ";
        break;
    }
    absl::StrAppend(&out_, "  guard ", Expr(guard.left), op, Expr(guard.right),
                    " ", QuotedText(guard.origin), "\n");
  }

  void PrintNode(const Node& node) {
    absl::StrAppend(&out_, "  ");
    const char* comma = "";
    for (const ValueId id : node.results) {
      absl::StrAppend(&out_, comma, Name(id));
      comma = ", ";
    }
    absl::StrAppend(&out_, node.results.empty() ? "" : " = ",
                    ShortOpName(*node.op), "(");
    PrintArguments(node);
    absl::StrAppend(&out_, ")");
    comma = " : ";
    for (const ValueId id : node.results) {
      absl::StrAppend(&out_, comma, Meta(graph_.meta(id)));
      comma = ", ";
    }
    absl::StrAppend(&out_, "\n");
  }

  void PrintArguments(const Node& node) {
    const std::vector<Param>& params = node.op->schema.params;
    const auto is_default = [&](size_t i) {
      return i < params.size() && params[i].has_default &&
             node.args[i] == params[i].default_value;
    };
    size_t positional = 0;
    for (size_t i = 0; i < node.args.size() && i < params.size(); ++i) {
      if (!params[i].keyword_only && !is_default(i)) positional = i + 1;
    }
    const char* comma = "";
    for (size_t i = 0; i < node.args.size(); ++i) {
      const bool by_name = i < params.size() && params[i].keyword_only;
      if (by_name ? is_default(i) || node.args[i].is_none() : i >= positional) {
        continue;
      }
      absl::StrAppend(&out_, comma);
      if (by_name) absl::StrAppend(&out_, params[i].name, "=");
      PrintArgument(node.args[i]);
      comma = ", ";
    }
  }

  void PrintArgument(const Argument& arg) {
    std::visit([this](const auto& value) { PrintValue(value); }, arg.v);
  }
  void PrintValue(NoneArgument) { absl::StrAppend(&out_, "none"); }
  void PrintValue(ValueId id) { absl::StrAppend(&out_, Name(id)); }
  void PrintValue(const SymExpr& e) { absl::StrAppend(&out_, Expr(e)); }
  void PrintValue(double value) { absl::StrAppend(&out_, FloatText(value)); }
  void PrintValue(bool flag) {
    absl::StrAppend(&out_, flag ? "true" : "false");
  }
  void PrintValue(const std::string& text) {
    absl::StrAppend(&out_, QuotedText(text));
  }
  void PrintValue(DType dtype) { absl::StrAppend(&out_, ShortName(dtype)); }
  void PrintValue(MemoryFormat format) {
    switch (format) {
      case MemoryFormat::kContiguous:
        absl::StrAppend(&out_, "contiguous_format");
        break;
      case MemoryFormat::kPreserve:
        absl::StrAppend(&out_, "preserve_format");
        break;
      case MemoryFormat::kChannelsLast:
        absl::StrAppend(&out_, "channels_last");
        break;
      case MemoryFormat::kChannelsLast3d:
        absl::StrAppend(&out_, "channels_last_3d");
        break;
    }
  }
  void PrintValue(DeviceType device) {
    absl::StrAppend(&out_, device == DeviceType::kCpu ? "cpu" : "cuda");
  }
  void PrintValue(const Argument::List& list) {
    absl::StrAppend(&out_, "[");
    const char* comma = "";
    for (const Argument& item : list) {
      absl::StrAppend(&out_, comma);
      PrintArgument(item);
      comma = ", ";
    }
    absl::StrAppend(&out_, "]");
  }

  const Graph& graph_;
  const std::vector<std::string> names_;
  std::string out_;
};

// "add" of "aten.add.Tensor".
absl::string_view BaseName(const OpDef& op) {
  absl::string_view name = op.name;
  name.remove_prefix(name.find('.') + 1);
  return name.substr(0, name.find('.'));
}

}  // namespace

absl::string_view ShortOpName(const OpDef& op) {
  absl::string_view name = op.name;
  absl::ConsumePrefix(&name, "aten.");
  absl::ConsumeSuffix(&name, ".default");
  return name;
}

std::vector<std::string> ValueNames(const Graph& graph) {
  std::vector<std::string> names(graph.num_values());
  absl::flat_hash_set<std::string> used;
  // How often a base name was asked for, so that unnamed values stay linear.
  absl::flat_hash_map<std::string, int> next;
  for (uint32_t i = 0; i < graph.num_values(); ++i) {
    const Value& value = graph.value(ValueId{i});
    std::string base = value.name;
    if (base.empty()) {
      base = value.node == Value::kNoNode
                 ? "arg"
                 : std::string(BaseName(*graph.nodes()[value.node].op));
    }
    std::string name = base;
    int& n = next[base];
    while (!used.insert(name).second) name = absl::StrCat(base, "_", ++n);
    names[i] = std::move(name);
  }
  return names;
}

std::string PrintGraph(const Graph& graph) {
  return GraphPrinter(graph).Print();
}

}  // namespace kiln
