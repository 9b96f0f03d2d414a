#include "proto/key/canonical_graph.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "proto/base/assemble.h"
#include "proto/base/dtype.h"
#include "proto/base/status.h"
#include "proto/base/sym_eval.h"
#include "proto/key/graph_checks.h"

namespace kiln {
namespace {

constexpr int64_t kUnboundedMax = (int64_t{1} << 62) - 1;

// Walks a graph once, in the order in which symbols are numbered, checking and
// rewriting as it goes. `graph` is the canonical graph in the making.
class Walk {
 public:
  explicit Walk(const wire::Graph& given)
      : given_(given), canonical_of_(given.symbols_size(), -1) {}

  absl::StatusOr<CanonicalGraph> Run();

 private:
  absl::Status CheckCounts() const;
  absl::Status Inputs();
  absl::Status Constants();
  absl::Status Nodes();
  absl::Status OneNode(wire::Node& node, absl::string_view where);
  absl::Status Outputs();
  absl::Status Symbols();

  absl::Status Expr(wire::SymExpr& expr, absl::string_view where);
  absl::Status Meta(wire::TensorMeta& meta, absl::string_view where);
  absl::Status Arg(wire::Argument& argument, int nesting, int& budget,
                   absl::string_view where);
  absl::Status SortKwargs(wire::Node& node, absl::string_view where);
  void NoteSource(const wire::SymExpr& expr);

  const wire::Graph& given_;
  wire::Graph graph_;
  std::vector<int> canonical_of_;
  std::vector<int> original_of_;
  std::vector<bool> sourced_;  // by canonical number: seen alone in an input
  uint32_t values_ = 0;        // defined so far
};

absl::Status Walk::CheckCounts() const {
  const struct {
    absl::string_view what;
    int found;
    int due;
  } rows[] = {
      {"symbols", given_.symbols_size(), kMaxGraphSymbols},
      {"inputs", given_.inputs_size(), kMaxGraphInputs},
      {"constants", given_.constants_size(), kMaxGraphInputs},
      {"nodes", given_.nodes_size(), kMaxGraphNodes},
      {"outputs", given_.outputs_size(), kMaxGraphInputs},
  };
  for (const auto& row : rows) {
    if (row.found > row.due) {
      return TooLarge("graph", row.what, row.found, row.due);
    }
  }
  RETURN_IF_ERROR(CheckName(given_.name(), "graph"));
  return CheckKnown(given_, "graph");
}

absl::Status Walk::Expr(wire::SymExpr& expr, absl::string_view where) {
  RETURN_IF_ERROR(CheckKnown(expr, where));
  // Nearly every expression is a plain number.
  if (expr.code_size() == 0) return absl::OkStatus();
  for (const wire::SymInstruction& in : expr.code()) {
    RETURN_IF_ERROR(CheckKnown(in, where));
  }
  const absl::StatusOr<SymProgram> program =
      SymProgram::FromWire(expr, given_.symbols_size());
  RETURN_IF_ERROR(Annotate(program.status(), where));
  expr = program->ToWire();
  for (wire::SymInstruction& in : *expr.mutable_code()) {
    if (in.op() != wire::SYM_OP_SYMBOL) continue;
    int& number = canonical_of_[in.value()];
    if (number < 0) {
      number = static_cast<int>(original_of_.size());
      original_of_.push_back(static_cast<int>(in.value()));
      sourced_.push_back(false);
    }
    in.set_value(number);
  }
  return absl::OkStatus();
}

void Walk::NoteSource(const wire::SymExpr& expr) {
  if (expr.code_size() == 1 && expr.code(0).op() == wire::SYM_OP_SYMBOL) {
    sourced_[expr.code(0).value()] = true;
  }
}

absl::Status Walk::Meta(wire::TensorMeta& meta, absl::string_view where) {
  RETURN_IF_ERROR(CheckKnown(meta, where));
  if (meta.sizes_size() > kMaxTensorRank) {
    return TooLarge(where, "dimensions", meta.sizes_size(), kMaxTensorRank);
  }
  if (meta.sizes_size() != meta.strides_size()) {
    return Malformed(where, absl::StrCat(meta.sizes_size(), " sizes and ",
                                         meta.strides_size(), " strides"));
  }
  for (wire::SymExpr& size : *meta.mutable_sizes()) {
    RETURN_IF_ERROR(Expr(size, where));
  }
  for (wire::SymExpr& stride : *meta.mutable_strides()) {
    RETURN_IF_ERROR(Expr(stride, where));
  }
  if (meta.has_storage_offset()) {
    wire::SymExpr& offset = *meta.mutable_storage_offset();
    RETURN_IF_ERROR(Expr(offset, where));
    // One spelling: an offset of 0 is not there.
    if (offset.code_size() == 0 && offset.value() == 0) {
      meta.clear_storage_offset();
    }
  }
  return CheckElements(meta, where);
}

absl::Status Walk::Inputs() {
  for (int i = 0; i < graph_.inputs_size(); ++i) {
    wire::Input& input = *graph_.mutable_inputs(i);
    const std::string where = absl::StrCat("input ", i);
    RETURN_IF_ERROR(CheckName(input.name(), where));
    RETURN_IF_ERROR(CheckKnown(input, where));
    input.clear_name();
    const uint32_t alignment = input.alignment_bytes();
    if (alignment > 16 || (alignment & (alignment - 1)) != 0) {
      return Malformed(where, absl::StrCat("alignment of ", alignment,
                                           " bytes, must be 1, 2, 4, 8 or 16"));
    }
    if (input.has_tensor()) {
      wire::TensorMeta& meta = *input.mutable_tensor();
      if (meta.dtype() == wire::DTYPE_UNSPECIFIED) {
        return Malformed(where, "its dtype is not set");
      }
      RETURN_IF_ERROR(Meta(meta, where));
      for (const wire::SymExpr& size : meta.sizes()) NoteSource(size);
      for (const wire::SymExpr& stride : meta.strides()) NoteSource(stride);
      NoteSource(meta.storage_offset());
      const auto dtype = DTypeFromWire(meta.dtype());
      if (dtype.has_value() && alignment == SizeInBytes(*dtype)) {
        input.clear_alignment_bytes();
      }
    } else if (input.has_scalar()) {
      RETURN_IF_ERROR(Expr(*input.mutable_scalar(), where));
      NoteSource(input.scalar());
    } else {
      return Malformed(where, "neither a tensor nor a scalar");
    }
    ++values_;
  }
  return absl::OkStatus();
}

absl::Status Walk::Constants() {
  for (int i = 0; i < graph_.constants_size(); ++i) {
    wire::Constant& constant = *graph_.mutable_constants(i);
    const std::string where = absl::StrCat("constant ", i);
    RETURN_IF_ERROR(CheckName(constant.name(), where));
    RETURN_IF_ERROR(CheckKnown(constant, where));
    constant.clear_name();
    if (!constant.digest().empty()) {
      return MakeError(ErrorReason::kUnsupportedOp,
                       absl::StrCat(where, ": a constant by digest"));
    }
    const int64_t bytes = constant.data().size();
    if (bytes > kMaxConstantBytes) {
      return TooLarge(where, "bytes", bytes, kMaxConstantBytes);
    }
    wire::TensorMeta& meta = *constant.mutable_tensor();
    RETURN_IF_ERROR(Meta(meta, where));
    int64_t elements = 1;
    for (const wire::SymExpr& size : meta.sizes()) {
      if (size.code_size() != 0) return Malformed(where, "a symbolic size");
      elements *= size.value();
    }
    const auto dtype = DTypeFromWire(meta.dtype());
    if (dtype.has_value() && elements * SizeInBytes(*dtype) != bytes) {
      return Malformed(where, absl::StrCat(bytes, " bytes for ", elements,
                                           " elements of ", ShortName(*dtype)));
    }
    ++values_;
  }
  return absl::OkStatus();
}

absl::Status Walk::Arg(wire::Argument& argument, int nesting, int& budget,
                       absl::string_view where) {
  RETURN_IF_ERROR(CheckKnown(argument, where));
  if (--budget < 0) {
    return MakeError(
        ErrorReason::kTooLarge,
        absl::StrCat(where, ": more than ", kMaxNodeArguments, " arguments"));
  }
  switch (argument.kind_case()) {
    case wire::Argument::kValue:
      if (argument.value() < values_) return absl::OkStatus();
      return Malformed(
          where, absl::StrCat("reads value ", argument.value(), ", but only ",
                              values_, " values are defined before it"));
    case wire::Argument::kStringValue:
      return CheckName(argument.string_value(), where);
    case wire::Argument::kLayout:
      return CheckName(argument.layout(), where);
    case wire::Argument::kSym:
      return Expr(*argument.mutable_sym(), where);
    case wire::Argument::kList:
      if (nesting == kMaxArgumentNesting) {
        return MakeError(ErrorReason::kTooLarge,
                         absl::StrCat(where, ": lists nest deeper than ",
                                      kMaxArgumentNesting));
      }
      RETURN_IF_ERROR(CheckKnown(argument.list(), where));
      for (wire::Argument& item : *argument.mutable_list()->mutable_items()) {
        RETURN_IF_ERROR(Arg(item, nesting + 1, budget, where));
      }
      return absl::OkStatus();
    case wire::Argument::kIntValue:
    case wire::Argument::kFloatValue:
    case wire::Argument::kBoolValue:
    case wire::Argument::kNone:
    case wire::Argument::kDtype:
    case wire::Argument::kDevice:
    case wire::Argument::kMemoryFormat:
      return absl::OkStatus();
    case wire::Argument::KIND_NOT_SET:
      return Malformed(where, "an argument of no kind");
  }
  return Malformed(where, "an argument of an unknown kind");
}

absl::Status Walk::SortKwargs(wire::Node& node, absl::string_view where) {
  for (const wire::NamedArgument& kwarg : node.kwargs()) {
    RETURN_IF_ERROR(CheckName(kwarg.name(), where));
    RETURN_IF_ERROR(CheckKnown(kwarg, where));
  }
  std::sort(node.mutable_kwargs()->pointer_begin(),
            node.mutable_kwargs()->pointer_end(),
            [](const wire::NamedArgument* a, const wire::NamedArgument* b) {
              return a->name() < b->name();
            });
  for (int i = 1; i < node.kwargs_size(); ++i) {
    if (node.kwargs(i - 1).name() == node.kwargs(i).name()) {
      return Malformed(
          where, absl::StrCat("argument \"", Quoted(node.kwargs(i).name()),
                              "\" is given twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status Walk::OneNode(wire::Node& node, absl::string_view where) {
  RETURN_IF_ERROR(CheckKnown(node, where));
  RETURN_IF_ERROR(CheckName(node.op(), where));
  RETURN_IF_ERROR(CheckName(node.name(), where));
  if (node.op().empty()) return Malformed(where, "no operator");
  const int64_t trace_bytes = node.stack_trace().size();
  if (trace_bytes > kMaxStackTraceBytes) {
    return TooLarge(where, "bytes of stack trace", trace_bytes,
                    kMaxStackTraceBytes);
  }
  node.clear_name();
  node.clear_stack_trace();
  RETURN_IF_ERROR(SortKwargs(node, where));
  int budget = kMaxNodeArguments;
  for (wire::Argument& argument : *node.mutable_args()) {
    RETURN_IF_ERROR(Arg(argument, 0, budget, where));
  }
  for (wire::NamedArgument& kwarg : *node.mutable_kwargs()) {
    RETURN_IF_ERROR(Arg(*kwarg.mutable_value(), 0, budget, where));
  }
  for (wire::TensorMeta& result : *node.mutable_results()) {
    RETURN_IF_ERROR(Meta(result, where));
    ++values_;
  }
  return absl::OkStatus();
}

absl::Status Walk::Nodes() {
  for (int i = 0; i < graph_.nodes_size(); ++i) {
    wire::Node& node = *graph_.mutable_nodes(i);
    std::string where = absl::StrCat("node ", i);
    if (!node.name().empty()) {
      absl::StrAppend(&where, " %", Quoted(node.name()));
    }
    absl::StrAppend(&where, " (", Quoted(node.op()), ")");
    RETURN_IF_ERROR(OneNode(node, where));
  }
  return absl::OkStatus();
}

absl::Status Walk::Outputs() {
  for (int i = 0; i < graph_.outputs_size(); ++i) {
    wire::Output& output = *graph_.mutable_outputs(i);
    const std::string where = absl::StrCat("output ", i);
    RETURN_IF_ERROR(CheckKnown(output, where));
    if (output.strides_size() > kMaxTensorRank) {
      return TooLarge(where, "strides", output.strides_size(), kMaxTensorRank);
    }
    if (output.kind_case() == wire::Output::KIND_NOT_SET) {
      return Malformed(where, "neither a value, a number nor none");
    }
    if (output.has_value() && output.value() >= values_) {
      return Malformed(where,
                       absl::StrCat("value ", output.value(), " of ", values_));
    }
    if (output.has_sym()) RETURN_IF_ERROR(Expr(*output.mutable_sym(), where));
    for (wire::SymExpr& stride : *output.mutable_strides()) {
      RETURN_IF_ERROR(Expr(stride, where));
    }
  }
  return absl::OkStatus();
}

absl::Status Walk::Symbols() {
  for (size_t i = 0; i < original_of_.size(); ++i) {
    const wire::Symbol& given = given_.symbols(original_of_[i]);
    const std::string where = absl::StrCat("symbol ", original_of_[i], " (",
                                           Quoted(given.name()), ")");
    RETURN_IF_ERROR(CheckName(given.name(), where));
    RETURN_IF_ERROR(CheckKnown(given, where));
    if (given.min() > given.max()) {
      return Malformed(where, absl::StrCat("at least ", given.min(),
                                           " and at most ", given.max()));
    }
    if (!sourced_[i]) {
      return Malformed(where,
                       "no input has it alone as a size, stride, "
                       "offset or scalar");
    }
    wire::Symbol& symbol = *graph_.add_symbols();
    const bool unbounded = given.min() == 0 && given.max() == kUnboundedMax;
    if (!unbounded) {
      symbol.set_min(given.min());
      symbol.set_max(given.max());
    }
    symbol.set_hint(HintClass(given.hint(), symbol.min(), symbol.max()));
  }
  return absl::OkStatus();
}

absl::StatusOr<CanonicalGraph> Walk::Run() {
  RETURN_IF_ERROR(CheckCounts());
  graph_ = given_;
  graph_.clear_name();
  graph_.clear_symbols();
  RETURN_IF_ERROR(Inputs());
  RETURN_IF_ERROR(Constants());
  RETURN_IF_ERROR(Nodes());
  RETURN_IF_ERROR(Outputs());
  RETURN_IF_ERROR(Symbols());

  CanonicalGraph canonical;
  std::vector<int64_t> hints;
  for (wire::Symbol& symbol : *graph_.mutable_symbols()) {
    hints.push_back(symbol.hint());
    symbol.clear_hint();
  }
  canonical.digest = Sha256Of(DeterministicBytes(graph_));
  for (int i = 0; i < graph_.symbols_size(); ++i) {
    graph_.mutable_symbols(i)->set_hint(hints[i]);
  }
  canonical.graph = std::move(graph_);
  canonical.symbols.canonical_of = std::move(canonical_of_);
  canonical.symbols.original_of = std::move(original_of_);
  return canonical;
}

}  // namespace

std::vector<int64_t> SymbolMap::ToCanonical(
    absl::Span<const int64_t> original) const {
  std::vector<int64_t> values;
  values.reserve(original_of.size());
  for (const int number : original_of) values.push_back(original[number]);
  return values;
}

int64_t HintClass(int64_t hint, int64_t min, int64_t max) {
  constexpr int64_t kLargest = int64_t{1} << 61;
  int64_t rounded = 0;
  if (hint > kLargest) {
    rounded = kLargest;
  } else if (hint > 0) {
    rounded = absl::bit_ceil(static_cast<uint64_t>(hint));
  }
  if (min == 0 && max == 0) return rounded;
  return std::clamp(rounded, min, max);
}

absl::StatusOr<CanonicalGraph> CanonicalizeGraph(const wire::Graph& graph) {
  return Walk(graph).Run();
}

}  // namespace kiln
