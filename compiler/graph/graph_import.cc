#include "compiler/graph/graph_import.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/bind_arguments.h"
#include "compiler/graph/call_limits.h"
#include "compiler/graph/infer_meta.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_table.h"
#include "compiler/graph/refused_nodes.h"
#include "compiler/graph/wire_values.h"
#include "proto/base/status.h"
#include "proto/base/sym_eval.h"

namespace kiln {
namespace {

constexpr int64_t kMaxConstantBytes = 1 << 20;
// Operators that near ones are looked for: it takes long.
constexpr size_t kMostNearNames = 64;

class GraphImporter {
 public:
  GraphImporter(const wire::Graph& wire, const wire::GuardSet& forbidden)
      : wire_(wire), forbidden_(forbidden) {}

  absl::StatusOr<Graph> Import() {
    RETURN_IF_ERROR(Annotate(CheckName(wire_.name()), "graph"));
    graph_.name = TextName(wire_.name());
    // Nearly all nodes have one result.
    graph_.Reserve(static_cast<size_t>(wire_.nodes_size()),
                   static_cast<size_t>(wire_.inputs_size()) +
                       static_cast<size_t>(wire_.constants_size()) +
                       static_cast<size_t>(wire_.nodes_size()) * 5 / 4);
    RETURN_IF_ERROR(ImportSymbols());
    RETURN_IF_ERROR(ForbidGuards());
    for (int i = 0; i < wire_.inputs_size(); ++i) {
      RETURN_IF_ERROR(
          Annotate(ImportInput(wire_.inputs(i)), absl::StrCat("input ", i)));
    }
    RETURN_IF_ERROR(FindSources());
    for (int i = 0; i < wire_.constants_size(); ++i) {
      RETURN_IF_ERROR(Annotate(ImportConstant(wire_.constants(i)),
                               absl::StrCat("constant ", i)));
    }
    RETURN_IF_ERROR(ImportNodes());
    for (const std::string& word : wire_.kernel_words()) {
      RETURN_IF_ERROR(Annotate(CheckName(word), "kernel word"));
      graph_.client_words.push_back(word);
    }
    for (int i = 0; i < wire_.outputs_size(); ++i) {
      RETURN_IF_ERROR(
          Annotate(ImportOutput(wire_.outputs(i)), absl::StrCat("output ", i)));
    }
    return std::move(graph_);
  }

 private:
  // What a wire value number stands for.
  using WireValue = std::variant<ValueId, SymExpr>;

  uint32_t num_symbols() const {
    return static_cast<uint32_t>(wire_.symbols_size());
  }

  std::string NodeName(int i) const {
    const std::string name = TextName(wire_.nodes(i).name());
    return absl::StrCat(
        "node ", name.empty() ? absl::StrCat("#", i) : absl::StrCat("%", name));
  }

  absl::Status ImportSymbols() {
    for (int i = 0; i < wire_.symbols_size(); ++i) {
      const wire::Symbol& wire = wire_.symbols(i);
      RETURN_IF_ERROR(
          Annotate(CheckName(wire.name()), absl::StrCat("symbol ", i)));
      SymbolFacts facts;
      facts.name = absl::StrCat("s", i);
      facts.hint = wire.hint();
      facts.range = {wire.min(), wire.max()};
      if (wire.min() == 0 && wire.max() == 0) {
        facts.range = {0, ValueRange::kMax - 1};
      }
      if (facts.range.min < 0 || facts.range.max > ValueRange::kMax ||
          !facts.range.Contains(facts.hint)) {
        return Malformed(absl::StrCat(
            "symbol ", i, ": hint ", facts.hint, " in [", wire.min(), ", ",
            wire.max(), "], expected inside of it and of [0, 2^62]"));
      }
      graph_.shapes.symbols.push_back(std::move(facts));
    }
    return absl::OkStatus();
  }

  absl::Status ForbidGuards() {
    std::vector<int64_t> hints;
    for (const SymbolFacts& symbol : graph_.shapes.symbols) {
      hints.push_back(symbol.hint);
    }
    for (const wire::SymGuard& guard : forbidden_.symbols()) {
      ASSIGN_OR_RETURN(const SymProgram condition,
                       SymProgram::FromWire(guard.condition(), num_symbols()));
      const absl::StatusOr<int64_t> holds = condition.EvaluateChecked(hints);
      if (holds.ok() && *holds != 0) {
        return Malformed(
            absl::StrCat("forbidden guard ", condition.ToText(),
                         ": holds at the hints, expected one that the "
                         "caller's sizes break"));
      }
      // One that is no comparison is no fact, and needs none: hints decide
      // against it.
      const absl::StatusOr<Guard> fact =
          GuardFromWire(guard.condition(), num_symbols());
      if (fact.ok()) graph_.shapes.Forbid(*fact);
    }
    return absl::OkStatus();
  }

  absl::Status CheckElements(const TensorMeta& meta) const {
    __int128 elements = 1;
    for (const SymExpr& size : meta.sizes) {
      const int64_t n = graph_.shapes.Hint(size);
      if (n <= 0) return absl::OkStatus();
      elements *= n;
      if (elements >= kMaxElements) {
        return MakeError(ErrorReason::kTooLarge,
                         absl::StrCat("tensor ", ToText(meta),
                                      ", expected less than 2^40 elements"));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<TensorMeta> ImportMeta(const wire::TensorMeta& wire) {
    ASSIGN_OR_RETURN(TensorMeta meta, TensorMetaFromWire(wire, num_symbols()));
    RETURN_IF_ERROR(CheckElements(meta));
    if (wire.device() == wire::DEVICE_TYPE_CUDA) {
      graph_.device = DeviceType::kCuda;
    }
    return meta;
  }

  absl::Status ImportInput(const wire::Input& wire) {
    RETURN_IF_ERROR(CheckName(wire.name()));
    if (wire.kind_case() == wire::Input::kScalar) {
      ASSIGN_OR_RETURN(SymExpr e,
                       SymExprFromWire(wire.scalar(), num_symbols()));
      graph_.inputs.push_back({e, 1});
      values_.push_back(std::move(e));
      return absl::OkStatus();
    }
    if (wire.kind_case() != wire::Input::kTensor) {
      return Malformed("neither a tensor nor a scalar");
    }
    ASSIGN_OR_RETURN(TensorMeta meta, ImportMeta(wire.tensor()));
    uint32_t alignment = wire.alignment_bytes();
    if ((alignment & (alignment - 1)) != 0 || alignment > 4096) {
      return Malformed(
          absl::StrCat("alignment of ", alignment,
                       " bytes, expected a power of two up to 4096"));
    }
    if (alignment == 0) {
      alignment = static_cast<uint32_t>(SizeInBytes(meta.dtype));
    }
    values_.push_back(
        graph_.AddInput(TextName(wire.name()), std::move(meta), alignment));
    graph_.inputs.back().donated = wire.donated();
    return absl::OkStatus();
  }

  // A symbol's value is read from the first input that is just it; from an
  // offset only where nothing else is it: some callers have addresses alone.
  absl::Status FindSources() {
    std::vector<bool> found(num_symbols(), false);
    const auto see = [&](const SymExpr& e, SymbolSource source) {
      Var var;
      if (!e.AsVar(&var) || found[var.index]) return;
      found[var.index] = true;
      graph_.shapes.symbols[var.index].source = source;
    };
    using Kind = SymbolSource::Kind;
    for (uint32_t i = 0; i < graph_.inputs.size(); ++i) {
      const auto& what = graph_.inputs[i].what;
      if (const SymExpr* e = std::get_if<SymExpr>(&what)) {
        see(*e, {Kind::kScalar, i, 0});
        continue;
      }
      const TensorMeta& meta = graph_.meta(std::get<ValueId>(what));
      for (uint32_t d = 0; d < meta.sizes.size(); ++d) {
        see(meta.sizes[d], {Kind::kSize, i, d});
      }
      for (uint32_t d = 0; d < meta.strides.size(); ++d) {
        see(meta.strides[d], {Kind::kStride, i, d});
      }
    }
    for (uint32_t i = 0; i < graph_.inputs.size(); ++i) {
      const auto* id = std::get_if<ValueId>(&graph_.inputs[i].what);
      if (id != nullptr) see(graph_.meta(*id).offset, {Kind::kOffset, i, 0});
    }
    for (uint32_t i = 0; i < num_symbols(); ++i) {
      if (!found[i]) {
        return Malformed(absl::StrCat(
            "symbol ", i,
            ": no input is it, expected one size, stride, offset or "
            "scalar"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ImportConstant(const wire::Constant& wire) {
    RETURN_IF_ERROR(CheckName(wire.name()));
    ASSIGN_OR_RETURN(TensorMeta meta, ImportMeta(wire.tensor()));
    const SymExpr bytes = meta.numel() * SizeInBytes(meta.dtype);
    if (!bytes.is_constant()) return Malformed("a size that is a symbol");
    if (wire.data().empty() && !wire.digest().empty()) {
      return MakeError(ErrorReason::kUnsupportedOp,
                       "data that travels apart from the graph");
    }
    if (bytes.constant() > kMaxConstantBytes) {
      return MakeError(
          ErrorReason::kTooLarge,
          absl::StrCat(bytes.constant(), " bytes, expected at most ",
                       kMaxConstantBytes));
    }
    if (bytes.constant() != static_cast<int64_t>(wire.data().size())) {
      return Malformed(absl::StrCat(wire.data().size(), " bytes of data for ",
                                    ToText(meta)));
    }
    if (!IsContiguous(meta, graph_.shapes) || !meta.offset.Is(0)) {
      return Malformed(absl::StrCat(ToText(meta), ", expected contiguous"));
    }
    meta.strides = ContiguousStrides(meta.sizes);
    values_.push_back(graph_.AddConstant(TextName(wire.name()), std::move(meta),
                                         wire.data()));
    return absl::OkStatus();
  }

  absl::StatusOr<Argument> ImportList(const wire::ArgumentList& wire) {
    Argument::List items;
    items.reserve(wire.items_size());
    for (const wire::Argument& item : wire.items()) {
      ASSIGN_OR_RETURN(Argument imported, ImportArgument(item));
      items.push_back(std::move(imported));
    }
    return Argument(std::move(items));
  }

  absl::StatusOr<Argument> ImportArgument(const wire::Argument& wire) {
    switch (wire.kind_case()) {
      case wire::Argument::kValue:
        if (wire.value() >= values_.size()) {
          return Malformed(absl::StrCat("value ", wire.value(),
                                        " is used before it is defined"));
        }
        return std::visit([](const auto& v) { return Argument(v); },
                          values_[wire.value()]);
      case wire::Argument::kIntValue:
        return Argument(static_cast<int64_t>(wire.int_value()));
      case wire::Argument::kFloatValue:
        return Argument(wire.float_value());
      case wire::Argument::kBoolValue:
        return Argument(wire.bool_value());
      case wire::Argument::kStringValue:
        RETURN_IF_ERROR(CheckName(wire.string_value()));
        return Argument(wire.string_value());
      case wire::Argument::kSym: {
        ASSIGN_OR_RETURN(SymExpr e, SymExprFromWire(wire.sym(), num_symbols()));
        return Argument(std::move(e));
      }
      case wire::Argument::kList:
        return ImportList(wire.list());
      case wire::Argument::kNone:
        return Argument(NoneArgument());
      case wire::Argument::kDtype: {
        ASSIGN_OR_RETURN(const DType dtype, DTypeOfWire(wire.dtype()));
        return Argument(dtype);
      }
      case wire::Argument::kDevice:
        if (wire.device() == wire::DEVICE_TYPE_CPU) {
          return Argument(DeviceType::kCpu);
        }
        if (wire.device() == wire::DEVICE_TYPE_CUDA) {
          return Argument(DeviceType::kCuda);
        }
        return Malformed("a device that is not named");
      case wire::Argument::kMemoryFormat:
        if (wire.memory_format() < wire::MEMORY_FORMAT_CONTIGUOUS ||
            wire.memory_format() > wire::MEMORY_FORMAT_CHANNELS_LAST_3D) {
          return Malformed("a memory format that is not named");
        }
        return Argument(static_cast<MemoryFormat>(wire.memory_format()));
      case wire::Argument::kLayout:
        RETURN_IF_ERROR(CheckName(wire.layout()));
        if (wire.layout() != "strided") {
          return MakeError(ErrorReason::kUnsupportedOp,
                           absl::StrCat("layout ", wire.layout()));
        }
        return Argument(wire.layout());
      case wire::Argument::KIND_NOT_SET:
        break;
    }
    return Malformed("an argument that says nothing");
  }

  // One error names all nodes that Kiln does not compile.
  absl::Status ImportNodes() {
    RefusedNodes refused;
    for (int i = 0; i < wire_.nodes_size(); ++i) {
      const size_t known = values_.size();
      const auto number = static_cast<uint32_t>(i);
      const absl::Status status = ImportNode(number);
      if (status.ok()) continue;
      if (!IsRefusal(status) && refused.empty()) {
        return Annotate(status, NodeName(i));
      }
      const wire::Node& wire = wire_.nodes(i);
      if (IsRefusal(status)) {
        refused.Add(number, wire.op(), NodeName(i), status);
      }
      values_.erase(values_.begin() + known, values_.end());
      if (!IsRefusal(status) || refused.full() || !StandIn(wire)) {
        if (i + 1 < wire_.nodes_size()) refused.SetMore();
        break;
      }
    }
    return refused.ToStatus();
  }

  // After a refusal: the results as the client declares them, so that the
  // nodes after it can be looked at. False where it declares none.
  bool StandIn(const wire::Node& wire) {
    for (const wire::TensorMeta& result : wire.results()) {
      if (result.dtype() == wire::DTYPE_UNSPECIFIED) {
        values_.push_back(SymExpr(0));  // one that it does not use
        continue;
      }
      absl::StatusOr<TensorMeta> meta = ImportMeta(result);
      if (!meta.ok()) return false;
      values_.push_back(graph_.AddInput("", *std::move(meta), 1));
    }
    return wire.results_size() > 0;
  }

  // One operator has many nodes.
  absl::Status Unknown(const std::string& name) {
    const auto [place, is_new] = unknown_.try_emplace(name);
    if (is_new) {
      place->second = UnknownOp(name, unknown_.size() <= kMostNearNames);
    }
    return place->second;
  }

  absl::Status ImportNode(uint32_t number) {
    const wire::Node& wire = wire_.nodes(static_cast<int>(number));
    RETURN_IF_ERROR(CheckName(wire.name()));
    RETURN_IF_ERROR(CheckName(wire.op()));
    RETURN_IF_ERROR(CheckName(wire.original_op()));
    const OpDef* op = FindOp(wire.op());
    if (op == nullptr) return Unknown(wire.op());
    Arguments positional;
    for (const wire::Argument& arg : wire.args()) {
      ASSIGN_OR_RETURN(Argument imported, ImportArgument(arg));
      positional.push_back(std::move(imported));
    }
    std::vector<std::pair<absl::string_view, Argument>> by_name;
    for (const wire::NamedArgument& arg : wire.kwargs()) {
      RETURN_IF_ERROR(CheckName(arg.name()));
      ASSIGN_OR_RETURN(Argument imported, ImportArgument(arg.value()));
      by_name.push_back({arg.name(), std::move(imported)});
    }
    ASSIGN_OR_RETURN(Arguments bound,
                     BindArguments(*op, std::move(positional), by_name));
    ASSIGN_OR_RETURN(
        const ValueIds results,
        graph_.AddNode(*op, std::move(bound), TextName(wire.name())));
    graph_.SetClientNode(number);
    graph_.client_operators.push_back(PacketName(
        wire.original_op().empty() ? wire.op() : wire.original_op()));
    RETURN_IF_ERROR(CheckCall(graph_, graph_.nodes().back()));
    RETURN_IF_ERROR(CheckMemory(graph_.nodes().back()));
    if (wire.results_size() != 0 &&
        wire.results_size() != static_cast<int>(results.size())) {
      return Malformed(absl::StrCat(op->name, ": found ", wire.results_size(),
                                    " results, expected ", results.size()));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      values_.push_back(results[i]);
      if (wire.results_size() == 0) continue;
      RETURN_IF_ERROR(
          Annotate(CheckResult(wire.results(static_cast<int>(i)), results[i]),
                   absl::StrCat(op->name, ": result ", i)));
    }
    return absl::OkStatus();
  }

  // Whether two tensors of equal sizes have equal strides, at the hints.
  bool LieAlike(const TensorMeta& a, const TensorMeta& b) const {
    const ShapeEnv& shapes = graph_.shapes;
    for (int d = 0; d < a.rank(); ++d) {
      if (shapes.Hint(a.sizes[d]) > 1 &&
          shapes.Hint(a.strides[d]) != shapes.Hint(b.strides[d])) {
        return false;
      }
    }
    return true;
  }

  // as_strided alone reads memory by strides that its input does not have.
  absl::Status CheckMemory(const Node& node) const {
    if (node.op->name != "aten.as_strided.default" || !node.args[0].is_value())
      return absl::OkStatus();
    const auto found = other_strides_.find(node.args[0].value());
    if (found == other_strides_.end()) return absl::OkStatus();
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat(node.op->name, ": of a tensor with strides ",
                                  found->second, ", where inference gives ",
                                  ToText(graph_.meta(found->first))));
  }

  // What the client believes of a result, against inference.
  absl::Status CheckResult(const wire::TensorMeta& wire, ValueId id) {
    // A result it does not use.
    if (wire.dtype() == wire::DTYPE_UNSPECIFIED) return absl::OkStatus();
    const TensorMeta& due = graph_.meta(id);
    ASSIGN_OR_RETURN(const TensorMeta found,
                     TensorMetaFromWire(wire, num_symbols()));
    bool agrees =
        due.defined && found.dtype == due.dtype && found.rank() == due.rank();
    for (int d = 0; agrees && d < due.rank(); ++d) {
      agrees = found.sizes[d] == due.sizes[d] ||
               graph_.shapes.Hint(found.sizes[d]) ==
                   graph_.shapes.Hint(due.sizes[d]);
    }
    if (agrees) {
      if (wire.strides_size() != 0 && !LieAlike(found, due))
        other_strides_.emplace(id, ToText(found.strides));
      return absl::OkStatus();
    }
    return Malformed(absl::StrCat("found ", ToText(found), ", inference gives ",
                                  ToText(due)));
  }

  absl::Status ImportOutput(const wire::Output& wire) {
    GraphOutput output;
    if (wire.kind_case() == wire::Output::kSym) {
      ASSIGN_OR_RETURN(output.what, SymExprFromWire(wire.sym(), num_symbols()));
    } else if (wire.kind_case() == wire::Output::kValue) {
      if (wire.value() >= values_.size()) {
        return Malformed(
            absl::StrCat("value ", wire.value(), " is not defined"));
      }
      std::visit([&](const auto& v) { output.what = v; },
                 values_[wire.value()]);
    } else if (wire.kind_case() != wire::Output::kNone) {
      return Malformed("neither a value, an expression nor none");
    }
    const ValueId* id = std::get_if<ValueId>(&output.what);
    if (id != nullptr && !graph_.meta(*id).defined) {
      output.what = NoneArgument();
    } else if (id != nullptr) {
      const TensorMeta& meta = graph_.meta(*id);
      output.strides = meta.strides;
      if (wire.strides_size() > 0) {
        if (wire.strides_size() != meta.rank()) {
          return Malformed(
              absl::StrCat(wire.strides_size(), " strides for ", ToText(meta)));
        }
        for (int d = 0; d < meta.rank(); ++d) {
          ASSIGN_OR_RETURN(output.strides[d],
                           SymExprFromWire(wire.strides(d), num_symbols()));
        }
      }
    }
    graph_.outputs.push_back(std::move(output));
    return absl::OkStatus();
  }

  const wire::Graph& wire_;
  const wire::GuardSet& forbidden_;
  Graph graph_;
  std::vector<WireValue> values_;
  absl::flat_hash_map<std::string, absl::Status> unknown_;
  // As the client knows them, of results that inference lays out otherwise.
  absl::flat_hash_map<ValueId, std::string> other_strides_;
};

}  // namespace

absl::StatusOr<Graph> ImportGraph(const wire::Graph& graph,
                                  const wire::GuardSet& forbidden) {
  return GraphImporter(graph, forbidden).Import();
}

}  // namespace kiln
