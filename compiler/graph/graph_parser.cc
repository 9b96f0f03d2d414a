#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/bind_arguments.h"
#include "compiler/graph/graph_text.h"
#include "compiler/graph/op_table.h"
#include "compiler/graph/text_cursor.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int64_t kDefaultHint = 8;

// Whether sym_text.h reads `word` as a name.
bool IsSymbolName(absl::string_view word) {
  return !word.empty() && !absl::ascii_isdigit(word[0]) &&
         !absl::StrContains(word, '.');
}

class GraphParser {
 public:
  explicit GraphParser(absl::string_view text) : cursor_(text) {}

  absl::StatusOr<Graph> Parse() {
    RETURN_IF_ERROR(ParseHeader());
    while (!cursor_.Take("}")) RETURN_IF_ERROR(ParseStatement());
    if (!cursor_.AtEnd()) return cursor_.Unexpected("the end");
    RETURN_IF_ERROR(ResolveOutputs());
    FindSources();
    return std::move(graph_);
  }

 private:
  absl::Status ParseHeader() {
    RETURN_IF_ERROR(cursor_.Expect("graph"));
    RETURN_IF_ERROR(cursor_.Expect("@"));
    graph_.name = std::string(cursor_.TakeAnyWord());
    RETURN_IF_ERROR(cursor_.Expect("("));
    RETURN_IF_ERROR(ParseList(")", [this] { return ParseSymbol(); }));
    if (cursor_.TakeWord("on")) {
      RETURN_IF_ERROR(cursor_.Expect("cuda"));
      graph_.device = DeviceType::kCuda;
    }
    RETURN_IF_ERROR(cursor_.Expect("("));
    RETURN_IF_ERROR(ParseList(")", [this] { return ParseInput(); }));
    RETURN_IF_ERROR(cursor_.Expect("->"));
    RETURN_IF_ERROR(cursor_.Expect("("));
    RETURN_IF_ERROR(ParseList(")", [this] { return ParseOutput(); }));
    return cursor_.Expect("{");
  }

  // Items with commas between them, up to `close`. None may be missing.
  absl::Status ParseList(absl::string_view close,
                         absl::FunctionRef<absl::Status()> parse_item) {
    if (cursor_.Take(close)) return absl::OkStatus();
    do {
      RETURN_IF_ERROR(parse_item());
    } while (cursor_.Take(","));
    if (cursor_.Take(close)) return absl::OkStatus();
    return cursor_.Unexpected(absl::StrCat("',' or '", close, "'"));
  }

  absl::Status ParseSymbol() {
    SymbolFacts symbol;
    ASSIGN_OR_RETURN(symbol.name, NewSymbol());
    symbol.range = {0, ValueRange::kMax};
    if (cursor_.TakeWord("in")) {
      RETURN_IF_ERROR(cursor_.Expect("["));
      ASSIGN_OR_RETURN(symbol.range.min, cursor_.TakeInteger());
      RETURN_IF_ERROR(cursor_.Expect(","));
      const TextCursor at_max = cursor_;
      ASSIGN_OR_RETURN(symbol.range.max, cursor_.TakeInteger());
      if (symbol.range.max < symbol.range.min) {
        return at_max.Unexpected(
            absl::StrCat("a number of at least ", symbol.range.min));
      }
      RETURN_IF_ERROR(cursor_.Expect("]"));
    }
    symbol.hint = std::clamp(kDefaultHint, symbol.range.min, symbol.range.max);
    if (cursor_.Take("=")) {
      const TextCursor at_hint = cursor_;
      ASSIGN_OR_RETURN(symbol.hint, cursor_.TakeInteger());
      if (symbol.hint < symbol.range.min || symbol.hint > symbol.range.max) {
        return at_hint.Unexpected(absl::StrCat("a hint in [", symbol.range.min,
                                               ", ", symbol.range.max, "]"));
      }
    } else if (cursor_.PeekWord() == "hint") {
      return cursor_.Unexpected("a hint in the form '= 8'");
    }
    graph_.shapes.symbols.push_back(std::move(symbol));
    return absl::OkStatus();
  }

  // A name that expressions can read back as this symbol.
  absl::StatusOr<std::string> NewSymbol() {
    const absl::string_view name = cursor_.PeekWord();
    if (!IsSymbolName(name)) return cursor_.Unexpected("a symbol's name");
    if (SymbolOfName(name).has_value()) {
      return cursor_.Unexpected(
          absl::StrCat("a symbol other than ", name, ", which is taken"));
    }
    return std::string(cursor_.TakeAnyWord());
  }

  absl::Status ParseInput() {
    if (cursor_.TakeWord("int")) {
      ASSIGN_OR_RETURN(const SymExpr e, Expr());
      graph_.inputs.push_back({e, 1});
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::string name, NewName());
    RETURN_IF_ERROR(cursor_.Expect(":"));
    ASSIGN_OR_RETURN(TensorMeta meta, Meta());
    int64_t alignment = kTextAlignment;
    if (cursor_.TakeWord("align")) {
      ASSIGN_OR_RETURN(alignment, cursor_.TakeInteger());
    }
    const ValueId input = graph_.AddInput(name, std::move(meta),
                                          static_cast<uint32_t>(alignment));
    graph_.inputs.back().donated = cursor_.TakeWord("donated");
    return Define(name, input);
  }

  // Outputs are named before they are defined.
  absl::Status ParseOutput() {
    OpenOutput output;
    if (cursor_.TakeWord("none")) {
      outputs_.push_back(std::move(output));
      return absl::OkStatus();
    }
    if (!absl::StartsWith(cursor_.rest(), "%")) {
      ASSIGN_OR_RETURN(output.expr, Expr());
      outputs_.push_back(std::move(output));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(output.name, NewName());
    if (cursor_.TakeWord("strides")) {
      ASSIGN_OR_RETURN(output.strides, Dims());
    }
    outputs_.push_back(std::move(output));
    return absl::OkStatus();
  }

  absl::Status ResolveOutputs() {
    for (OpenOutput& open : outputs_) {
      GraphOutput output;
      if (open.expr.has_value()) {
        output.what = *open.expr;
      } else if (!open.name.empty()) {
        const auto found = values_.find(open.name);
        if (found == values_.end()) {
          return absl::InvalidArgumentError(
              absl::StrCat("output %", open.name, " is never defined"));
        }
        output.what = found->second;
        output.strides = open.strides.has_value()
                             ? *open.strides
                             : graph_.meta(found->second).strides;
      }
      graph_.outputs.push_back(std::move(output));
    }
    return absl::OkStatus();
  }

  absl::Status ParseStatement() {
    if (cursor_.TakeWord("guard")) return ParseGuard();
    if (cursor_.TakeWord("mutate")) {
      Mutation mutation;
      ASSIGN_OR_RETURN(mutation.input, UsedValue());
      RETURN_IF_ERROR(cursor_.Expect("="));
      ASSIGN_OR_RETURN(mutation.value, UsedValue());
      graph_.mutations.push_back(mutation);
      return absl::OkStatus();
    }
    // An operator without results.
    if (FindOpByText(cursor_.PeekWord()) != nullptr) return ParseNode({});
    std::vector<std::string> names;
    do {
      ASSIGN_OR_RETURN(std::string name, NewName());
      names.push_back(std::move(name));
    } while (cursor_.Take(","));
    RETURN_IF_ERROR(cursor_.Expect("="));
    if (cursor_.TakeWord("constant")) {
      ASSIGN_OR_RETURN(TensorMeta meta, Meta());
      ASSIGN_OR_RETURN(std::string data, cursor_.TakeHexBytes());
      return Define(names[0], graph_.AddConstant(names[0], std::move(meta),
                                                 std::move(data)));
    }
    return ParseNode(names);
  }

  absl::Status ParseGuard() {
    ASSIGN_OR_RETURN(const SymExpr left, Expr());
    GuardOp op;
    if (cursor_.Take("==")) {
      op = GuardOp::kEq;
    } else if (cursor_.Take("!=")) {
      op = GuardOp::kNe;
    } else if (cursor_.Take("<=")) {
      op = GuardOp::kLe;
    } else if (cursor_.Take("<")) {
      op = GuardOp::kLt;
    } else {
      return cursor_.Unexpected("a comparison");
    }
    ASSIGN_OR_RETURN(const SymExpr right, Expr());
    ASSIGN_OR_RETURN(const std::string origin, cursor_.TakeString());
    graph_.shapes.TakeGuard(op, left, right, origin);
    return absl::OkStatus();
  }

  absl::Status ParseNode(const std::vector<std::string>& names) {
    const absl::string_view word = cursor_.PeekWord();
    const OpDef* op = FindOpByText(word);
    if (op == nullptr) return cursor_.Unexpected("an operator");
    const std::string where =
        names.empty() ? std::string(op->name) : Where(names[0]);
    cursor_.Take(word);
    RETURN_IF_ERROR(cursor_.Expect("("));
    Arguments positional;
    std::vector<std::pair<absl::string_view, Argument>> by_name;
    RETURN_IF_ERROR(ParseList(")", [&]() -> absl::Status {
      const absl::string_view name = cursor_.PeekWord();
      const absl::string_view after = cursor_.rest().substr(name.size());
      const bool named = !name.empty() && absl::StartsWith(after, "=");
      if (named) {
        cursor_.Take(name);
        cursor_.Take("=");
      }
      ASSIGN_OR_RETURN(Argument arg, ParseArgument());
      if (named) {
        by_name.push_back({name, std::move(arg)});
      } else {
        positional.push_back(std::move(arg));
      }
      return absl::OkStatus();
    }));
    absl::StatusOr<Arguments> args =
        BindArguments(*op, std::move(positional), by_name);
    if (!args.ok()) return Annotate(args.status(), where);
    absl::StatusOr<ValueIds> results = graph_.AddNode(*op, *std::move(args));
    if (!results.ok()) return Annotate(results.status(), where);
    if (results->size() != names.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": found ", names.size(), " names, expected ",
                       results->size()));
    }
    for (size_t i = 0; i < names.size(); ++i) {
      graph_.SetName((*results)[i], names[i]);
      RETURN_IF_ERROR(Define(names[i], (*results)[i]));
    }
    if (!cursor_.Take(":")) return absl::OkStatus();
    for (size_t i = 0; i < names.size(); ++i) {
      if (i > 0) RETURN_IF_ERROR(cursor_.Expect(","));
      ASSIGN_OR_RETURN(TensorMeta meta, Meta());
      graph_.SetMeta((*results)[i], std::move(meta));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Argument> ParseArgument(int depth = 0) {
    if (depth > 3) return cursor_.Unexpected("lists in lists, at most three");
    if (absl::StartsWith(cursor_.rest(), "%")) {
      ASSIGN_OR_RETURN(const ValueId id, UsedValue());
      return Argument(id);
    }
    if (absl::StartsWith(cursor_.rest(), "\"")) {
      ASSIGN_OR_RETURN(std::string text, cursor_.TakeString());
      return Argument(std::move(text));
    }
    if (cursor_.Take("[")) {
      Argument::List items;
      RETURN_IF_ERROR(ParseList("]", [&]() -> absl::Status {
        ASSIGN_OR_RETURN(Argument item, ParseArgument(depth + 1));
        items.push_back(std::move(item));
        return absl::OkStatus();
      }));
      return Argument(std::move(items));
    }
    if (double number; cursor_.TakeFloat(&number)) return Argument(number);
    if (std::optional<Argument> word = TakeKnownWord()) return *word;
    ASSIGN_OR_RETURN(SymExpr e, Expr());
    return Argument(std::move(e));
  }

  std::optional<Argument> TakeKnownWord() {
    static constexpr std::pair<absl::string_view, MemoryFormat> kFormats[] = {
        {"contiguous_format", MemoryFormat::kContiguous},
        {"preserve_format", MemoryFormat::kPreserve},
        {"channels_last", MemoryFormat::kChannelsLast},
        {"channels_last_3d", MemoryFormat::kChannelsLast3d}};
    if (cursor_.TakeWord("none")) return Argument(NoneArgument());
    if (cursor_.TakeWord("true")) return Argument(true);
    if (cursor_.TakeWord("false")) return Argument(false);
    if (cursor_.TakeWord("cpu")) return Argument(DeviceType::kCpu);
    if (cursor_.TakeWord("cuda")) return Argument(DeviceType::kCuda);
    for (const auto& [name, format] : kFormats) {
      if (cursor_.TakeWord(name)) return Argument(format);
    }
    const std::optional<DType> dtype = DTypeFromShortName(cursor_.PeekWord());
    if (!dtype.has_value()) return std::nullopt;
    cursor_.TakeAnyWord();
    return Argument(*dtype);
  }

  absl::StatusOr<TensorMeta> Meta() {
    TensorMeta meta;
    if (cursor_.TakeWord("none")) {
      meta.defined = false;
      return meta;
    }
    const std::optional<DType> dtype = DTypeFromShortName(cursor_.PeekWord());
    if (!dtype.has_value()) return cursor_.Unexpected("a dtype");
    cursor_.TakeAnyWord();
    meta.dtype = *dtype;
    ASSIGN_OR_RETURN(meta.sizes, Dims());
    meta.strides = ContiguousStrides(meta.sizes);
    if (cursor_.TakeWord("strides")) {
      ASSIGN_OR_RETURN(meta.strides, Dims());
    }
    if (cursor_.TakeWord("offset")) {
      ASSIGN_OR_RETURN(meta.offset, Expr());
    }
    return meta;
  }

  absl::StatusOr<DimVector> Dims() {
    RETURN_IF_ERROR(cursor_.Expect("["));
    DimVector dims;
    RETURN_IF_ERROR(ParseList("]", [&]() -> absl::Status {
      ASSIGN_OR_RETURN(SymExpr e, Expr());
      dims.push_back(std::move(e));
      return absl::OkStatus();
    }));
    return dims;
  }

  absl::StatusOr<SymExpr> Expr() {
    return cursor_.TakeSymExpr(
        [this](absl::string_view name) { return SymbolOfName(name); });
  }
  std::optional<Var> SymbolOfName(absl::string_view name) const {
    const auto& symbols = graph_.shapes.symbols;
    for (uint32_t i = 0; i < symbols.size(); ++i) {
      if (symbols[i].name == name) return Var{Var::Kind::kSymbol, i};
    }
    return std::nullopt;
  }

  absl::StatusOr<std::string> NewName() {
    RETURN_IF_ERROR(cursor_.Expect("%"));
    const absl::string_view name = cursor_.TakeAnyWord();
    if (name.empty()) return cursor_.Unexpected("a name");
    return std::string(name);
  }
  absl::StatusOr<ValueId> UsedValue() {
    ASSIGN_OR_RETURN(const std::string name, NewName());
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    return cursor_.Unexpected(absl::StrCat("%", name, " defined before"));
  }
  absl::Status Define(const std::string& name, ValueId id) {
    if (values_.emplace(name, id).second) return absl::OkStatus();
    return cursor_.Unexpected(absl::StrCat("%", name, " defined once"));
  }
  std::string Where(const std::string& name) const {
    return absl::StrCat("%", name);
  }

  // As in graph_import.cc.
  void FindSources() {
    std::vector<bool> found(graph_.shapes.symbols.size(), false);
    const auto see = [&](const SymExpr& e, SymbolSource source) {
      Var var;
      if (!e.AsVar(&var) || found[var.index]) return;
      found[var.index] = true;
      graph_.shapes.symbols[var.index].source = source;
    };
    for (uint32_t i = 0; i < graph_.inputs.size(); ++i) {
      const auto& what = graph_.inputs[i].what;
      if (const SymExpr* e = std::get_if<SymExpr>(&what)) {
        see(*e, {SymbolSource::Kind::kScalar, i, 0});
        continue;
      }
      const TensorMeta& meta = graph_.meta(std::get<ValueId>(what));
      for (uint32_t d = 0; d < meta.sizes.size(); ++d) {
        see(meta.sizes[d], {SymbolSource::Kind::kSize, i, d});
      }
      for (uint32_t d = 0; d < meta.strides.size(); ++d) {
        see(meta.strides[d], {SymbolSource::Kind::kStride, i, d});
      }
    }
    for (uint32_t i = 0; i < graph_.inputs.size(); ++i) {
      const auto* id = std::get_if<ValueId>(&graph_.inputs[i].what);
      if (id == nullptr) continue;
      see(graph_.meta(*id).offset, {SymbolSource::Kind::kOffset, i, 0});
    }
  }

  struct OpenOutput {
    std::string name;
    std::optional<SymExpr> expr;
    std::optional<DimVector> strides;
  };

  TextCursor cursor_;
  Graph graph_;
  std::vector<OpenOutput> outputs_;
  absl::flat_hash_map<std::string, ValueId> values_;
};

}  // namespace

const OpDef* FindOpByText(absl::string_view name) {
  for (const std::string& full :
       {absl::StrCat("aten.", name, ".default"), absl::StrCat("aten.", name),
        absl::StrCat(name, ".default"), std::string(name)}) {
    if (const OpDef* op = FindOp(full); op != nullptr) return op;
  }
  return nullptr;
}

absl::StatusOr<Graph> ParseGraph(absl::string_view text) {
  return GraphParser(text).Parse();
}

}  // namespace kiln
