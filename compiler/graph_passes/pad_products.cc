#include "compiler/graph_passes/pad_products.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "compiler/graph_passes/emitter.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Elements that sizes are multiples of; 0: no dtype of tensor cores.
int64_t StepOf(DType dtype) {
  if (IsHalf(dtype)) return 8;
  return dtype == DType::kFloat32 ? 4 : 0;
}

// Of a product: where its first factor stands among the arguments; -1 of others.
int FirstFactor(const Node& node) {
  const absl::string_view op = node.op->name;
  if (op == "aten.mm.default" || op == "aten.bmm.default") return 0;
  return op == "aten.addmm.default" ? 1 : -1;
}

// How many elements one size lacks.
int64_t Missing(const SymExpr& size, int64_t step) {
  if (!size.is_constant() || size.constant() <= 1) return 0;
  return (step - size.constant() % step) % step;
}

struct Lacks {
  int64_t m = 0, k = 0, n = 0;
  bool any() const { return m > 0 || k > 0 || n > 0; }
};

Lacks LacksOf(const Graph& graph, const Node& node) {
  const int first = FirstFactor(node);
  if (first < 0) return {};
  const TensorMeta& a = graph.meta(node.args[first].value());
  const TensorMeta& b = graph.meta(node.args[first + 1].value());
  const int64_t step = StepOf(a.dtype);
  if (step == 0) return {};
  for (const TensorMeta* meta : {&a, &b})
    for (const SymExpr& size : meta->sizes)
      if (size.Is(0)) return {};
  const size_t rank = a.sizes.size();
  return {Missing(a.sizes[rank - 2], step), Missing(a.sizes[rank - 1], step),
          Missing(b.sizes[rank - 1], step)};
}

// `v` with so many more rows and columns; fewer where they are below 0.
ValueId Padded(Emitter& e, ValueId v, int64_t rows, int64_t columns) {
  if (rows == 0 && columns == 0) return v;
  const DimVector pads = {0, columns, 0, rows};
  return e.Call("aten.constant_pad_nd.default", {v, ListArgument(pads), 0.0});
}

// The bias of an addmm, which may be stretched along what is padded.
ValueId PaddedBias(Emitter& e, ValueId bias, const Lacks& lacks) {
  const DimVector sizes = e.meta(bias).sizes;
  DimVector pads;
  const int64_t more[] = {lacks.n, lacks.m};
  bool any = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const SymExpr& size = sizes[sizes.size() - 1 - d];
    pads.push_back(0);
    pads.push_back(size.Is(1) ? 0 : more[d]);
    any |= !pads.back().Is(0);
  }
  if (!any) return bias;
  return e.Call("aten.constant_pad_nd.default",
                {bias, ListArgument(pads), 0.0});
}

}  // namespace

absl::StatusOr<Changed> PadProducts(Graph& graph, const PassEnv& env) {
  const ArtifactOptions& options = env.options.artifact;
  if (!options.shape_padding || !options.force_shape_pad ||
      graph.device != DeviceType::kCuda) {
    return Changed::kNo;
  }
  GraphRewriter rewriter(graph);
  Emitter e(graph);
  bool changed = false;
  for (uint32_t i = 0; i < rewriter.num_old_nodes(); ++i) {
    const Node node = rewriter.old_node(i);
    Emitter::Args args;
    for (const Argument& arg : node.args) args.push_back(rewriter.Map(arg));
    const int first = FirstFactor(node);
    if (first < 0) {
      rewriter.Keep(i);
      continue;
    }
    Node mapped = node;
    for (size_t k = 0; k < args.size(); ++k) mapped.args[k] = args[k];
    const Lacks lacks = LacksOf(graph, mapped);
    if (!lacks.any()) {
      rewriter.Keep(i);
      continue;
    }
    args[first] = Padded(e, args[first].value(), lacks.m, lacks.k);
    args[first + 1] = Padded(e, args[first + 1].value(), lacks.k, lacks.n);
    if (first == 1) args[0] = PaddedBias(e, args[0].value(), lacks);
    const ValueId product = e.Call(*node.op, std::move(args));
    const ValueId cropped = Padded(e, product, -lacks.m, -lacks.n);
    RETURN_IF_ERROR(e.status());
    rewriter.Replace(i, {&cropped, 1});
    changed = true;
  }
  rewriter.Finish();
  return changed ? Changed::kYes : Changed::kNo;
}

}  // namespace kiln
