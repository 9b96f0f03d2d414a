#include "client/c_api/c_graph.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/c_api/c_status.h"
#include "client/graph_builder.h"
#include "proto/base/status.h"
#include "proto/key/graph_limits.h"

namespace kiln {
namespace {

std::string Text(const char* text) { return text == nullptr ? "" : text; }

// Keeps the first mistake, as one of the request. False when there is one.
bool Keep(KilnGraph& graph, const absl::Status& found,
          absl::string_view subject) {
  if (found.ok()) return true;
  if (graph.mistake.ok()) {
    graph.mistake = MakeError(ErrorReason::kMalformedGraph,
                              absl::StrCat(subject, ": ", found.message()));
  }
  return false;
}

absl::StatusOr<wire::SymExpr> ExprOf(const KilnGraph& graph, KilnSize size) {
  RETURN_IF_ERROR(
      CheckRange("symbol", size.symbol, -1, graph.graph.symbols_size() - 1));
  wire::SymExpr expr;
  if (size.symbol < 0) {
    expr.set_value(size.factor);
    return expr;
  }
  const auto add = [&expr](wire::SymOp op, int64_t value) {
    wire::SymInstruction* instruction = expr.add_code();
    instruction->set_op(op);
    instruction->set_value(value);
  };
  add(wire::SYM_OP_SYMBOL, size.symbol);
  if (size.factor != 1) {
    add(wire::SYM_OP_CONSTANT, size.factor);
    add(wire::SYM_OP_MUL, 0);
  }
  return expr;
}

absl::StatusOr<wire::DType> DTypeOf(int64_t number) {
  RETURN_IF_ERROR(CheckRange("dtype", number, KILN_BOOL, KILN_FLOAT64));
  return static_cast<wire::DType>(number);
}

// The step of the next dimension outwards. As PyTorch has it: a dimension of
// size 0 counts as 1.
absl::StatusOr<SizeExpr> StepOver(const SizeExpr& step, const SizeExpr& size) {
  if (size.constant() == 0) return step;
  int64_t product = 0;
  if (step.constant().has_value() && size.constant().has_value() &&
      __builtin_mul_overflow(*step.constant(), *size.constant(), &product)) {
    return absl::OutOfRangeError(absl::StrCat(
        "elements: found ", *step.constant(), " times ", *size.constant(),
        ", expected at most ", kMaxTensorElements));
  }
  return step * size;
}

absl::StatusOr<wire::TensorMeta> MetaOf(const KilnGraph& graph,
                                        const KilnSpec* spec) {
  RETURN_IF_ERROR(CheckGiven("spec", spec));
  RETURN_IF_ERROR(CheckRange("rank", spec->rank, 0, kMaxTensorRank));
  RETURN_IF_ERROR(CheckArray("sizes", spec->sizes, spec->rank));
  wire::TensorMeta meta;
  ASSIGN_OR_RETURN(const wire::DType dtype, DTypeOf(NumberOf(spec->dtype)));
  meta.set_dtype(dtype);
  meta.set_device(graph.device);
  meta.mutable_storage_offset();
  for (int d = 0; d < spec->rank; ++d) {
    ASSIGN_OR_RETURN(*meta.add_sizes(), ExprOf(graph, spec->sizes[d]));
    meta.add_strides();
  }
  SizeExpr step = 1;
  for (int d = spec->rank - 1; d >= 0; --d) {
    if (spec->strides != nullptr) {
      ASSIGN_OR_RETURN(*meta.mutable_strides(d),
                       ExprOf(graph, spec->strides[d]));
      continue;
    }
    *meta.mutable_strides(d) = step.wire();
    ASSIGN_OR_RETURN(step, StepOver(step, SizeExpr(meta.sizes(d))));
  }
  return meta;
}

absl::Status CheckValue(const KilnGraph& graph, int64_t number) {
  if (graph.next_value == 0) {
    return MakeError(ErrorReason::kMalformedGraph,
                     absl::StrCat("value: found ", number,
                                  ", but the graph has no "
                                  "input yet"));
  }
  return CheckRange("value", number, 0, int64_t{graph.next_value} - 1);
}

// -1 of a list of values is its None.
absl::Status AddValue(const KilnGraph& graph, int64_t number,
                      wire::ArgumentList& list) {
  if (number == -1) {
    list.add_items()->mutable_none();
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckValue(graph, number));
  list.add_items()->set_value(static_cast<uint32_t>(number));
  return absl::OkStatus();
}

// The kinds that hold `count` entries.
absl::StatusOr<wire::Argument> ListOf(const KilnGraph& graph,
                                      const KilnArg& arg) {
  wire::Argument out;
  wire::ArgumentList& list = *out.mutable_list();
  if (arg.kind == KILN_ARG_SIZES) {
    RETURN_IF_ERROR(CheckArray("sizes", arg.sizes, arg.count));
  } else {
    RETURN_IF_ERROR(CheckArray("integers", arg.integers, arg.count));
  }
  for (int32_t i = 0; i < arg.count; ++i) {
    if (arg.kind == KILN_ARG_VALUES) {
      RETURN_IF_ERROR(AddValue(graph, arg.integers[i], list));
    } else if (arg.kind == KILN_ARG_INTEGERS) {
      list.add_items()->set_int_value(arg.integers[i]);
    } else if (arg.sizes[i].symbol == -1) {
      list.add_items()->set_int_value(arg.sizes[i].factor);
    } else {
      ASSIGN_OR_RETURN(*list.add_items()->mutable_sym(),
                       ExprOf(graph, arg.sizes[i]));
    }
  }
  return out;
}

absl::StatusOr<wire::Argument> ArgumentOf(const KilnGraph& graph,
                                          const KilnArg& arg) {
  RETURN_IF_ERROR(
      CheckRange("kind", NumberOf(arg.kind), KILN_ARG_NONE, KILN_ARG_STRING));
  wire::Argument out;
  switch (arg.kind) {
    case KILN_ARG_NONE:
      out.mutable_none();
      return out;
    case KILN_ARG_VALUE:
      RETURN_IF_ERROR(CheckValue(graph, arg.integer));
      out.set_value(static_cast<uint32_t>(arg.integer));
      return out;
    case KILN_ARG_INTEGER:
      out.set_int_value(arg.integer);
      return out;
    case KILN_ARG_FLOAT:
      out.set_float_value(arg.floating);
      return out;
    case KILN_ARG_BOOL:
      RETURN_IF_ERROR(CheckRange("bool", arg.integer, 0, 1));
      out.set_bool_value(arg.integer != 0);
      return out;
    case KILN_ARG_SIZE: {
      ASSIGN_OR_RETURN(*out.mutable_sym(),
                       ExprOf(graph, {arg.integer, arg.symbol}));
      return out;
    }
    case KILN_ARG_INTEGERS:
    case KILN_ARG_VALUES:
    case KILN_ARG_SIZES:
      return ListOf(graph, arg);
    case KILN_ARG_DTYPE: {
      ASSIGN_OR_RETURN(const wire::DType dtype, DTypeOf(arg.integer));
      out.set_dtype(dtype);
      return out;
    }
    case KILN_ARG_STRING:
      RETURN_IF_ERROR(CheckGiven("string", arg.string));
      out.set_string_value(arg.string);
      return out;
  }
  return absl::InternalError("KilnArgKind out of range");
}

absl::Status AddArguments(const KilnGraph& graph, const KilnArg* args,
                          int32_t count, wire::Node& node) {
  RETURN_IF_ERROR(CheckArray("arguments", args, count));
  for (int32_t i = 0; i < count; ++i) {
    absl::StatusOr<wire::Argument> made = ArgumentOf(graph, args[i]);
    RETURN_IF_ERROR(Annotate(made.status(), absl::StrCat("argument ", i)));
    if (args[i].name == nullptr) {
      *node.add_args() = *std::move(made);
      continue;
    }
    wire::NamedArgument& named = *node.add_kwargs();
    named.set_name(args[i].name);
    *named.mutable_value() = *std::move(made);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace kiln

KilnGraph* kiln_graph_new(const char* name, KilnDevice device) {
  auto* graph = new KilnGraph;
  graph->graph.set_name(kiln::Text(name));
  kiln::Keep(
      *graph,
      kiln::CheckRange("device", kiln::NumberOf(device), KILN_CPU, KILN_CUDA),
      "graph");
  if (kiln::NumberOf(device) == KILN_CUDA) {
    graph->device = kiln::wire::DEVICE_TYPE_CUDA;
  }
  return graph;
}

KilnStatus* kiln_graph_parse(const void* bytes, size_t length,
                             KilnGraph** graph) {
  constexpr size_t kMost = 0x7fffffff;  // a protobuf message's
  absl::Status sound = kiln::CheckGiven("graph: pointer for the result", graph);
  if (sound.ok() && bytes == nullptr && length > 0) {
    sound = kiln::CheckGiven("graph: bytes", bytes);
  }
  if (!sound.ok()) return kiln::StatusOf(sound);
  auto parsed = std::make_unique<KilnGraph>();
  if (length > kMost ||
      !parsed->graph.ParseFromArray(bytes, static_cast<int>(length))) {
    return kiln::StatusOf(kiln::MakeError(
        kiln::ErrorReason::kMalformedGraph,
        absl::StrCat("graph: found ", length,
                     " bytes, expected a serialized kiln.wire.Graph")));
  }
  for (const kiln::wire::Input& input : parsed->graph.inputs()) {
    if (input.has_tensor()) parsed->device = input.tensor().device();
  }
  parsed->next_value =
      parsed->graph.inputs_size() + parsed->graph.constants_size();
  for (const kiln::wire::Node& node : parsed->graph.nodes()) {
    parsed->next_value += node.results_size();
  }
  *graph = parsed.release();
  return nullptr;
}

void kiln_graph_free(KilnGraph* graph) { delete graph; }

int32_t kiln_graph_symbol(KilnGraph* graph, const char* name, int64_t hint) {
  kiln::Keep(*graph, kiln::CheckAtLeast("hint", hint, 0),
             absl::StrCat("symbol ", kiln::Text(name)));
  kiln::wire::Symbol* symbol = graph->graph.add_symbols();
  symbol->set_name(kiln::Text(name));
  symbol->set_hint(hint);
  return graph->graph.symbols_size() - 1;
}

uint32_t kiln_graph_input(KilnGraph* graph, const char* name,
                          const KilnSpec* spec) {
  const std::string subject = absl::StrCat("input ", kiln::Text(name));
  if (graph->graph.nodes_size() > 0) {
    kiln::Keep(*graph,
               absl::InvalidArgumentError(kiln::FoundDue(
                   "nodes before it", graph->graph.nodes_size(), "none")),
               subject);
  }
  kiln::wire::Input* input = graph->graph.add_inputs();
  input->set_name(kiln::Text(name));
  auto meta = kiln::MetaOf(*graph, spec);
  if (kiln::Keep(*graph, meta.status(), subject)) {
    *input->mutable_tensor() = *std::move(meta);
  }
  return graph->next_value++;
}

uint32_t kiln_graph_node(KilnGraph* graph, const char* op, const KilnArg* args,
                         int32_t count, const KilnSpec* result) {
  const std::string subject =
      absl::StrCat("node ", graph->graph.nodes_size(), ", ", kiln::Text(op));
  kiln::wire::Node* node = graph->graph.add_nodes();
  node->set_op(kiln::Text(op));
  kiln::Keep(*graph, kiln::CheckGiven("operator", op), subject);
  kiln::Keep(*graph, kiln::AddArguments(*graph, args, count, *node), subject);
  auto meta = kiln::MetaOf(*graph, result);
  if (kiln::Keep(*graph, meta.status(), subject)) {
    *node->add_results() = *std::move(meta);
  }
  return graph->next_value++;
}

void kiln_graph_output(KilnGraph* graph, uint32_t value) {
  kiln::Keep(*graph, kiln::CheckValue(*graph, value),
             absl::StrCat("output ", graph->graph.outputs_size()));
  graph->graph.add_outputs()->set_value(value);
}
