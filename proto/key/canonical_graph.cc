#include "proto/key/canonical_graph.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
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

// The numbered piece in front of its error. Names are made for errors alone:
// a graph has thousands of pieces.
absl::Status ForEach(absl::string_view name, int count,
                     absl::FunctionRef<absl::Status(int)> piece) {
  for (int i = 0; i < count; ++i) {
    absl::Status status = piece(i);
    if (!status.ok()) return Annotate(status, absl::StrCat(name, " ", i));
  }
  return absl::OkStatus();
}

std::string NodeName(const wire::Node& node, int number) {
  return absl::StrCat("node ", number, node.name().empty() ? "" : " %",
                      Quoted(node.name()), " (", Quoted(node.op()), ")");
}

// Walks a graph once, in the order in which symbols are numbered, checking and
// rewriting as it goes. `graph` is the canonical graph in the making.
class Walk {
 public:
  explicit Walk(const wire::Graph& given)
      : given_(given), canonical_of_(given.symbols_size(), -1) {}

  absl::StatusOr<CanonicalGraph> Run();

 private:
  absl::Status CheckCounts() const;
  absl::Status Input(wire::Input& input);
  absl::Status Constant(wire::Constant& constant);
  absl::Status Node(wire::Node& node);
  absl::Status Output(wire::Output& output);
  absl::Status Symbol(const wire::Symbol& given, bool sourced);
  absl::Status Pieces();

  absl::Status Expr(wire::SymExpr& expr);
  absl::Status Meta(wire::TensorMeta& meta);
  absl::Status Arg(wire::Argument& argument, int nesting, int& budget);
  absl::Status SortKwargs(wire::Node& node);
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
    if (row.found > row.due) return TooLarge(row.what, row.found, row.due);
  }
  if (given_.kernel_words_size() != 0 &&
      given_.kernel_words_size() != given_.nodes_size()) {
    return MalformedRequest(absl::StrCat(given_.kernel_words_size(),
                                         " words of kernels for ",
                                         given_.nodes_size(), " nodes"));
  }
  RETURN_IF_ERROR(CheckGraphName(given_.name()));
  return CheckKnown(given_);
}

absl::Status Walk::Expr(wire::SymExpr& expr) {
  RETURN_IF_ERROR(CheckKnown(expr));
  // Nearly every expression is a plain number.
  if (expr.code_size() == 0) return absl::OkStatus();
  for (const wire::SymInstruction& in : expr.code()) {
    RETURN_IF_ERROR(CheckKnown(in));
  }
  ASSIGN_OR_RETURN(const SymProgram program,
                   SymProgram::FromWire(expr, given_.symbols_size()));
  expr = program.ToWire();
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

absl::Status Walk::Meta(wire::TensorMeta& meta) {
  RETURN_IF_ERROR(CheckKnown(meta));
  if (meta.sizes_size() > kMaxTensorRank) {
    return TooLarge("dimensions", meta.sizes_size(), kMaxTensorRank);
  }
  if (meta.sizes_size() != meta.strides_size()) {
    return MalformedRequest(absl::StrCat(meta.sizes_size(), " sizes and ",
                                         meta.strides_size(), " strides"));
  }
  for (wire::SymExpr& size : *meta.mutable_sizes()) {
    RETURN_IF_ERROR(Expr(size));
  }
  for (wire::SymExpr& stride : *meta.mutable_strides()) {
    RETURN_IF_ERROR(Expr(stride));
  }
  if (meta.has_storage_offset()) {
    wire::SymExpr& offset = *meta.mutable_storage_offset();
    RETURN_IF_ERROR(Expr(offset));
    // One spelling: an offset of 0 is not there.
    if (offset.code_size() == 0 && offset.value() == 0) {
      meta.clear_storage_offset();
    }
  }
  return CountElements(meta).status();
}

absl::Status Walk::Input(wire::Input& input) {
  RETURN_IF_ERROR(CheckGraphName(input.name()));
  RETURN_IF_ERROR(CheckKnown(input));
  input.clear_name();
  const uint32_t alignment = input.alignment_bytes();
  if (alignment > 16 || (alignment & (alignment - 1)) != 0) {
    return MalformedRequest(absl::StrCat("alignment of ", alignment,
                                         " bytes, must be 1, 2, 4, 8 or 16"));
  }
  ++values_;
  if (input.has_scalar()) {
    if (input.donated())
      return MalformedRequest("a scalar that is donated: it has no memory");
    RETURN_IF_ERROR(Expr(*input.mutable_scalar()));
    NoteSource(input.scalar());
    return absl::OkStatus();
  }
  if (!input.has_tensor())
    return MalformedRequest("neither a tensor nor a scalar");
  wire::TensorMeta& meta = *input.mutable_tensor();
  if (meta.dtype() == wire::DTYPE_UNSPECIFIED) {
    return MalformedRequest("its dtype is not set");
  }
  RETURN_IF_ERROR(Meta(meta));
  for (const wire::SymExpr& size : meta.sizes()) NoteSource(size);
  for (const wire::SymExpr& stride : meta.strides()) NoteSource(stride);
  NoteSource(meta.storage_offset());
  const auto dtype = DTypeFromWire(meta.dtype());
  if (dtype.has_value() && alignment == SizeInBytes(*dtype)) {
    input.clear_alignment_bytes();
  }
  return absl::OkStatus();
}

absl::Status Walk::Constant(wire::Constant& constant) {
  RETURN_IF_ERROR(CheckGraphName(constant.name()));
  RETURN_IF_ERROR(CheckKnown(constant));
  constant.clear_name();
  if (!constant.digest().empty()) {
    return MakeError(ErrorReason::kUnsupportedOp, "a constant by digest");
  }
  const int64_t bytes = constant.data().size();
  if (bytes > kMaxConstantBytes) {
    return TooLarge("bytes", bytes, kMaxConstantBytes);
  }
  wire::TensorMeta& meta = *constant.mutable_tensor();
  RETURN_IF_ERROR(Meta(meta));
  for (const wire::SymExpr& size : meta.sizes()) {
    if (size.code_size() != 0) return MalformedRequest("a symbolic size");
  }
  ASSIGN_OR_RETURN(const int64_t elements, CountElements(meta));
  const auto dtype = DTypeFromWire(meta.dtype());
  if (dtype.has_value() && elements * SizeInBytes(*dtype) != bytes) {
    return MalformedRequest(absl::StrCat(bytes, " bytes for ", elements,
                                         " elements of ", ShortName(*dtype)));
  }
  ++values_;
  return absl::OkStatus();
}

absl::Status Walk::Arg(wire::Argument& argument, int nesting, int& budget) {
  RETURN_IF_ERROR(CheckKnown(argument));
  if (--budget < 0) {
    return MakeError(
        ErrorReason::kTooLarge,
        absl::StrCat("more than ", kMaxNodeArguments, " arguments"));
  }
  switch (argument.kind_case()) {
    case wire::Argument::kValue:
      if (argument.value() < values_) return absl::OkStatus();
      return MalformedRequest(absl::StrCat("reads value ", argument.value(),
                                           ", but only ", values_,
                                           " values are defined before it"));
    case wire::Argument::kStringValue:
      return CheckGraphName(argument.string_value());
    case wire::Argument::kLayout:
      return CheckGraphName(argument.layout());
    case wire::Argument::kSym:
      return Expr(*argument.mutable_sym());
    case wire::Argument::kList:
      if (nesting == kMaxArgumentNesting) {
        return MakeError(
            ErrorReason::kTooLarge,
            absl::StrCat("lists nest deeper than ", kMaxArgumentNesting));
      }
      RETURN_IF_ERROR(CheckKnown(argument.list()));
      for (wire::Argument& item : *argument.mutable_list()->mutable_items()) {
        RETURN_IF_ERROR(Arg(item, nesting + 1, budget));
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
      return MalformedRequest("an argument of no kind");
  }
  return MalformedRequest("an argument of an unknown kind");
}

absl::Status Walk::SortKwargs(wire::Node& node) {
  for (const wire::NamedArgument& kwarg : node.kwargs()) {
    RETURN_IF_ERROR(CheckGraphName(kwarg.name()));
    RETURN_IF_ERROR(CheckKnown(kwarg));
  }
  std::sort(node.mutable_kwargs()->pointer_begin(),
            node.mutable_kwargs()->pointer_end(),
            [](const wire::NamedArgument* a, const wire::NamedArgument* b) {
              return a->name() < b->name();
            });
  for (int i = 1; i < node.kwargs_size(); ++i) {
    if (node.kwargs(i - 1).name() == node.kwargs(i).name()) {
      return MalformedRequest(absl::StrCat(
          "argument \"", Quoted(node.kwargs(i).name()), "\" is given twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status Walk::Node(wire::Node& node) {
  RETURN_IF_ERROR(CheckKnown(node));
  RETURN_IF_ERROR(CheckGraphName(node.op()));
  RETURN_IF_ERROR(CheckGraphName(node.name()));
  RETURN_IF_ERROR(CheckGraphName(node.original_op()));
  if (node.op().empty()) return MalformedRequest("no operator");
  const int64_t trace_bytes = node.stack_trace().size();
  if (trace_bytes > kMaxStackTraceBytes) {
    return TooLarge("bytes of stack trace", trace_bytes, kMaxStackTraceBytes);
  }
  node.clear_name();
  node.clear_stack_trace();
  RETURN_IF_ERROR(SortKwargs(node));
  int budget = kMaxNodeArguments;
  for (wire::Argument& argument : *node.mutable_args()) {
    RETURN_IF_ERROR(Arg(argument, 0, budget));
  }
  for (wire::NamedArgument& kwarg : *node.mutable_kwargs()) {
    RETURN_IF_ERROR(Arg(*kwarg.mutable_value(), 0, budget));
  }
  for (wire::TensorMeta& result : *node.mutable_results()) {
    RETURN_IF_ERROR(Meta(result));
    ++values_;
  }
  return absl::OkStatus();
}

absl::Status Walk::Output(wire::Output& output) {
  RETURN_IF_ERROR(CheckKnown(output));
  if (output.strides_size() > kMaxTensorRank) {
    return TooLarge("strides", output.strides_size(), kMaxTensorRank);
  }
  if (output.kind_case() == wire::Output::KIND_NOT_SET) {
    return MalformedRequest("neither a value, a number nor none");
  }
  if (output.has_value() && output.value() >= values_) {
    return MalformedRequest(
        absl::StrCat("value ", output.value(), " of ", values_));
  }
  if (output.has_sym()) RETURN_IF_ERROR(Expr(*output.mutable_sym()));
  for (wire::SymExpr& stride : *output.mutable_strides()) {
    RETURN_IF_ERROR(Expr(stride));
  }
  return absl::OkStatus();
}

absl::Status Walk::Symbol(const wire::Symbol& given, bool sourced) {
  RETURN_IF_ERROR(CheckGraphName(given.name()));
  RETURN_IF_ERROR(CheckKnown(given));
  if (given.min() > given.max()) {
    return MalformedRequest(
        absl::StrCat("at least ", given.min(), " and at most ", given.max()));
  }
  if (!sourced) {
    return MalformedRequest(
        "no input has it alone as a size, stride, offset or scalar");
  }
  wire::Symbol& symbol = *graph_.add_symbols();
  const bool unbounded = given.min() == 0 && given.max() == kUnboundedMax;
  if (!unbounded) {
    symbol.set_min(given.min());
    symbol.set_max(given.max());
  }
  symbol.set_hint(HintClass(given.hint(), symbol.min(), symbol.max()));
  return absl::OkStatus();
}

absl::Status Walk::Pieces() {
  RETURN_IF_ERROR(ForEach("input", graph_.inputs_size(), [this](int i) {
    return Input(*graph_.mutable_inputs(i));
  }));
  RETURN_IF_ERROR(ForEach("constant", graph_.constants_size(), [this](int i) {
    return Constant(*graph_.mutable_constants(i));
  }));
  for (int i = 0; i < graph_.nodes_size(); ++i) {
    absl::Status status = Node(*graph_.mutable_nodes(i));
    if (!status.ok()) return Annotate(status, NodeName(given_.nodes(i), i));
  }
  RETURN_IF_ERROR(ForEach("output", graph_.outputs_size(), [this](int i) {
    return Output(*graph_.mutable_outputs(i));
  }));
  RETURN_IF_ERROR(ForEach(
      "kernel word", graph_.kernel_words_size(),
      [this](int i) { return CheckGraphName(graph_.kernel_words(i)); }));
  for (size_t i = 0; i < original_of_.size(); ++i) {
    const wire::Symbol& given = given_.symbols(original_of_[i]);
    absl::Status status = Symbol(given, sourced_[i]);
    if (status.ok()) continue;
    return Annotate(status, absl::StrCat("symbol ", original_of_[i], " (",
                                         Quoted(given.name()), ")"));
  }
  return absl::OkStatus();
}

absl::StatusOr<CanonicalGraph> Walk::Run() {
  RETURN_IF_ERROR(Annotate(CheckCounts(), "graph"));
  graph_ = given_;
  graph_.clear_name();
  graph_.clear_symbols();
  RETURN_IF_ERROR(Pieces());

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
