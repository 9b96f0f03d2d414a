#include "compiler/loop/lower_graph.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/fix_symbols.h"
#include "compiler/graph/op_table.h"
#include "compiler/graph/refused_nodes.h"
#include "compiler/loop/assign_layouts.h"
#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

// By OpDef::index; `lower` is null for operators of no family.
const std::vector<LowerRow>& LowerTable() {
  static const auto* const kTable = [] {
    absl::flat_hash_map<absl::string_view, LowerRow> by_name;
    for (const auto family :
         {PointwiseLowerings(), SelectLowerings(), ReductionLowerings(),
          FactoryLowerings(), IndexLowerings(), ScatterLowerings(),
          CatLowerings(), PoolLowerings(), RandomLowerings(), SortLowerings(),
          ScatterReduceLowerings(), AssertionLowerings()}) {
      for (const LowerRow& row : family) by_name.emplace(row.name, row);
    }
    auto* table = new std::vector<LowerRow>(AllOps().size());
    for (const OpDef& op : AllOps()) {
      const auto found = by_name.find(op.name);
      if (found != by_name.end()) (*table)[op.index] = found->second;
    }
    return table;
  }();
  return *kTable;
}

// Avoids copies for the caller: if nothing else uses the memory of a result that would be
// copied, the result itself gets the copy's layout and is returned.
void ChooseOutputs(GraphLowering& g) {
  const Graph& graph = g.graph;
  std::vector<bool> given(graph.num_values());
  for (const GraphOutput& output : graph.outputs) {
    const auto* v = std::get_if<ValueId>(&output.what);
    g.outputs.push_back(v == nullptr ? std::nullopt : std::optional(*v));
    if (v != nullptr) given[MemoryOf(graph, *v).index] = true;
  }
  for (const Mutation& mutation : graph.mutations)
    given[MemoryOf(graph, mutation.value).index] = true;
  for (std::optional<ValueId>& output : g.outputs) {
    if (!output.has_value()) continue;
    const uint32_t producer = graph.value(*output).node;
    if (producer == Value::kNoNode) continue;
    const Node& node = graph.nodes()[producer];
    if (node.op->name != "aten.clone.default" &&
        node.op->name != "prims.copy_strided.default") {
      continue;
    }
    const ValueId source = node.args[0].value();
    const bool is_result = MemoryOf(graph, source) == source &&
                           graph.value(source).node != Value::kNoNode;
    if (!is_result || given[source.index]) continue;
    given[source.index] = true;
    output = source;
  }
}

void CountUses(GraphLowering& g) {
  g.uses.assign(g.graph.num_values(), 0);
  for (const Node& node : g.graph.nodes()) {
    Graph::VisitValues(node, [&](ValueId v) { ++g.uses[v.index]; });
  }
  g.output_strides.resize(g.graph.num_values());
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    if (!g.outputs[k].has_value()) continue;
    const uint32_t v = g.outputs[k]->index;
    ++g.uses[v];
    if (g.output_strides[v].empty())
      g.output_strides[v] = g.graph.outputs[k].strides;
  }
  for (const Mutation& mutation : g.graph.mutations) {
    ++g.uses[mutation.value.index];
  }
}

void PlaceInputs(GraphLowering& g) {
  const auto place = [&](ValueId v, BufferKind kind, uint32_t index) {
    const TensorMeta& m = g.meta(v);
    PlacedValue& placed = g.values[v.index];
    placed.buffer = g.AddBuffer(
        kind, m.dtype, m.sizes,
        kind == BufferKind::kConstant ? ContiguousStrides(m.sizes) : m.strides);
    Buffer& buffer = g.program.buffers[placed.buffer];
    buffer.name = g.graph.value(v).name;
    buffer.index = index;
    placed.index = OwnAxes(m.sizes);
    placed.placed = true;
  };
  for (uint32_t i = 0; i < g.graph.inputs.size(); ++i) {
    if (const auto* v = std::get_if<ValueId>(&g.graph.inputs[i].what)) {
      place(*v, BufferKind::kInput, i);
      Buffer& buffer = g.program.buffers[g.values[v->index].buffer];
      buffer.donated = g.graph.inputs[i].donated;
      buffer.alignment_bytes =
          std::min(buffer.alignment_bytes, g.graph.inputs[i].alignment_bytes);
    }
  }
  for (uint32_t i = 0; i < g.graph.constants.size(); ++i) {
    place(g.graph.constants[i].value, BufferKind::kConstant, i);
  }
}

absl::Status LowerNode(GraphLowering& g, const Node& node) {
  NodeLowering n{g, node, PacketName(node.op->name)};
  switch (node.op->handling) {
    case Handling::kView:
      return LowerView(n);
    case Handling::kStep:
      return LowerStep(n);
    case Handling::kLower: {
      const LowerRow& row = LowerTable()[node.op->index];
      if (row.lower != nullptr) return row.lower(n, row.op);
      break;
    }
    case Handling::kDecompose:
    case Handling::kMutate:
      break;
  }
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat(node.op->name, ": no lowering"));
}

// Lowers all nodes. The error lists all nodes that have no lowering.
absl::Status LowerNodes(GraphLowering& g) {
  RefusedNodes refused;
  for (const Node& node : g.graph.nodes()) {
    g.client_nodes = node.client_nodes;
    const absl::Status status = LowerNode(g, node);
    if (status.ok()) continue;
    if (!refused.Take(node.client_nodes, status)) return status;
    // Its results get memory anyway, so that the nodes that read them can be lowered.
    for (const ValueId result : node.results) {
      if (!g.values[result.index].placed) g.PlaceResult(result);
    }
  }
  g.client_nodes.clear();
  return refused.ToStatus();
}

// Whether the view has the strides that the caller expects.
bool HasStrides(const View& view, const DimVector& strides) {
  for (size_t d = 0; d < strides.size(); ++d) {
    if (!view.sizes[d].Is(1) && !(view.strides[d] == strides[d])) return false;
  }
  return true;
}

View OutputView(GraphLowering& g, ValueId v, const DimVector& wanted) {
  const TensorMeta& m = g.meta(v);
  const DimVector& strides = wanted.empty() ? m.strides : wanted;
  std::optional<View> view = g.AsView(v);
  const BufferKind kind = g.program.buffers[g.values[v.index].buffer].kind;
  if (!view.has_value() || !HasStrides(*view, strides) ||
      kind == BufferKind::kConstant) {
    NestWriter copy(g, "copy");
    const DimVector at = copy.Iterate(m.sizes);
    const BufferId buffer =
        g.AddBuffer(BufferKind::kOutput, m.dtype, m.sizes, strides);
    copy.StoreTo(buffer, at, copy.Load(v, at));
    copy.Finish();
    return View{buffer, m.dtype, m.sizes, strides, 0};
  }
  view->strides = strides;
  Buffer& buffer = g.program.buffers[view->buffer];
  if (buffer.kind == BufferKind::kTemporary) buffer.kind = BufferKind::kOutput;
  return *view;
}

void FinishOutputs(GraphLowering& g) {
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    const GraphOutput& output = g.graph.outputs[k];
    ProgramOutput out;
    if (g.outputs[k].has_value()) {
      out.what = OutputView(g, *g.outputs[k], output.strides);
    } else if (const auto* e = std::get_if<SymExpr>(&output.what)) {
      out.what = *e;
    }
    g.program.outputs.push_back(std::move(out));
  }
}

// Writes the final values of mutated inputs. All of these values must be read before the
// first input is written, so a value that is another input is copied first.
void FinishMutations(GraphLowering& g) {
  for (const Mutation& mutation : g.graph.mutations) {
    const BufferId to = g.values[mutation.input.index].buffer;
    const PlacedValue& from = g.values[mutation.value.index];
    const TensorMeta& m = g.meta(mutation.input);
    if (from.buffer == to && from.index == OwnAxes(m.sizes)) continue;
    NestWriter copy(g, "copy_");
    const DimVector at = copy.Iterate(m.sizes);
    copy.StoreTo(to, at, copy.Load(mutation.value, at));
    copy.Finish();
    g.program.mutated_inputs.push_back(g.program.buffers[to].index);
  }
}

// 64-bit addresses cost registers and instructions on a GPU. If 32 bits suffice for the
// sizes of the requesting call, guards limit the artifact to such sizes.
void GuardIndices(GraphLowering& g) {
  if (g.graph.device != DeviceType::kCuda) return;
  constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();
  ShapeEnv& shapes = g.program.shapes;
  std::vector<std::pair<int64_t, SymExpr>> spans;
  for (const Buffer& buffer : g.program.buffers) {
    const SymExpr span = SpanElements(buffer.sizes, buffer.strides);
    if (span.is_constant()) continue;
    // First each size, because the counters of loops go up to it.
    for (const SymExpr& size : buffer.sizes)
      if (shapes.Hint(size) <= kMostElements)
        shapes.DecideLe(size, kMostElements, "indices of 32 bits");
    spans.emplace_back(-shapes.Hint(span), span);
  }
  // A guard on the largest covers most others.
  std::sort(spans.begin(), spans.end());
  for (const auto& [negative_hint, span] : spans) {
    if (-negative_hint <= kMostElements)
      shapes.DecideLe(span, kMostElements, "indices of 32 bits");
  }
}

}  // namespace

bool HasLowering(const OpDef& op) {
  return op.handling == Handling::kView || op.handling == Handling::kStep ||
         LowerTable()[op.index].lower != nullptr;
}

absl::StatusOr<LoopProgram> LowerGraph(const Graph& given,
                                       const ArtifactOptions& options) {
  const std::optional<Graph> fixed = FixSymbols(given);
  const Graph& graph = fixed.has_value() ? *fixed : given;
  GraphLowering g(graph, options);
  g.program.steps.reserve(graph.nodes().size());  // steps are expensive to move
  g.program.name = graph.name;
  g.program.shapes = graph.shapes;
  g.program.replaced_contractions = graph.taken_apart;
  g.program.client_words = graph.client_words;
  g.values.resize(graph.num_values());
  g.channels_last = ChannelsLastResults(graph, options);
  ChooseOutputs(g);
  CountUses(g);
  PlaceInputs(g);
  RETURN_IF_ERROR(LowerNodes(g));
  FinishOutputs(g);
  FinishMutations(g);
  GuardIndices(g);
  return std::move(g.program);
}

}  // namespace kiln
