#include "compiler/graph_passes/fold_into_convolutions.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"
#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/emitter.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr uint32_t kNobody = ~0u;

// Who reads the values of a graph.
class Readers {
 public:
  explicit Readers(const Graph& graph)
      : graph_(graph), nodes_(graph.num_values()), seen_(graph.num_values()) {
    for (uint32_t i = 0; i < graph.nodes().size(); ++i) {
      Graph::VisitValues(graph.nodes()[i],
                         [&](ValueId v) { nodes_[v.index].push_back(i); });
    }
    for (const GraphOutput& output : graph.outputs) {
      const ValueId* v = std::get_if<ValueId>(&output.what);
      if (v != nullptr) seen_[v->index] = true;
    }
    for (const Mutation& mutation : graph.mutations)
      seen_[mutation.value.index] = true;
  }

  // The node that alone reads it, once; kNobody where there is none such.
  uint32_t OnlyReader(ValueId v) const {
    const absl::InlinedVector<uint32_t, 2>& nodes = nodes_[v.index];
    return nodes.size() == 1 && !seen_[v.index] ? nodes[0] : kNobody;
  }

  // Whether it lies in memory in any case: for the caller, a library's call or a
  // pooling, which reads an element several times.
  bool IsStored(ValueId v) const {
    if (seen_[v.index]) return true;
    for (const uint32_t i : nodes_[v.index]) {
      const Node& node = graph_.nodes()[i];
      if (node.op->handling == Handling::kStep || IsPooling(node)) return true;
      if (node.op->handling != Handling::kView) continue;
      for (const ValueId shown : node.results)
        if (IsStored(shown)) return true;
    }
    return false;
  }

 private:
  static bool IsPooling(const Node& node) {
    static const OpDef& kMax = KnownOp("aten.max_pool2d_with_indices.default");
    static const OpDef& kMean = KnownOp("aten.avg_pool2d.default");
    return node.op == &kMax || node.op == &kMean;
  }

  const Graph& graph_;
  std::vector<absl::InlinedVector<uint32_t, 2>> nodes_;
  std::vector<bool> seen_;
};

enum class Arithmetic : uint8_t { kAdd, kSub, kMul, kDiv, kConvert };

std::optional<Arithmetic> ArithmeticOf(const Node& node) {
  static const OpDef& kAdd = KnownOp("aten.add.Tensor");
  static const OpDef& kSub = KnownOp("aten.sub.Tensor");
  static const OpDef& kMul = KnownOp("aten.mul.Tensor");
  static const OpDef& kDiv = KnownOp("aten.div.Tensor");
  static const OpDef& kConvert = KnownOp("prims.convert_element_type.default");
  if (node.op == &kConvert) return Arithmetic::kConvert;
  if (node.op == &kAdd) return Arithmetic::kAdd;
  if (node.op == &kSub) return Arithmetic::kSub;
  if (node.op == &kMul) return Arithmetic::kMul;
  if (node.op == &kDiv) return Arithmetic::kDiv;
  return std::nullopt;
}

// An operator behind a convolution, and its operand that is no image, but for a
// conversion.
struct Link {
  uint32_t node;
  Arithmetic what;
  ValueId operand = {};
};

struct Chain {
  uint32_t convolution;
  std::vector<Link> links;  // in order, at least one
};

bool IsOne(const Argument& number) {
  if (const double* f = std::get_if<double>(&number.v)) return *f == 1.0;
  const SymExpr* e = std::get_if<SymExpr>(&number.v);
  return e != nullptr && e->Is(1);
}

SymExpr Elements(const DimVector& sizes) {
  SymExpr elements = 1;
  for (const SymExpr& size : sizes) elements = elements * size;
  return elements;
}

class ChainFinder {
 public:
  explicit ChainFinder(const Graph& graph) : graph_(graph), readers_(graph) {}

  // Behind node `i`; none where it is no convolution, or where it does not pay.
  std::optional<Chain> Find(uint32_t i) const {
    static const OpDef& kConvolution = KnownOp("aten.convolution.default");
    const Node& node = graph_.nodes()[i];
    if (node.op != &kConvolution || std::get<bool>(node.args[6].v))
      return std::nullopt;
    ValueId image = node.results[0];
    const DType dtype = graph_.meta(image).dtype;
    if (!IsFolded(node, dtype)) return std::nullopt;
    Chain chain = {i, {}};
    size_t whole = 0;  // links behind which the result has its type again
    while (const std::optional<Link> link = LinkBehind(image)) {
      chain.links.push_back(*link);
      image = graph_.nodes()[link->node].results[0];
      if (graph_.meta(image).dtype == dtype) whole = chain.links.size();
    }
    chain.links.resize(whole);
    if (whole == 0) return std::nullopt;
    image = graph_.nodes()[chain.links.back().node].results[0];
    if (!Pays(chain, image)) return std::nullopt;
    return chain;
  }

 private:
  bool OnCpu() const { return graph_.device == DeviceType::kCpu; }

  // Of what libraries have an epilogue for: oneDNN, and cuDNN of half types.
  bool IsFolded(const Node& convolution, DType dtype) const {
    if (OnCpu()) return dtype == DType::kFloat32 || dtype == DType::kFloat64;
    const SymExpr* groups = std::get_if<SymExpr>(&convolution.args[8].v);
    return IsHalf(dtype) && groups != nullptr && groups->Is(1);
  }

  std::optional<Link> LinkBehind(ValueId image) const {
    const uint32_t reader = readers_.OnlyReader(image);
    if (reader == kNobody) return std::nullopt;
    const Node& node = graph_.nodes()[reader];
    const std::optional<Arithmetic> what = ArithmeticOf(node);
    if (!what.has_value()) return std::nullopt;
    if (what == Arithmetic::kConvert) {
      const DType to = graph_.meta(node.results[0]).dtype;
      if (OnCpu() || !(IsHalf(to) || to == DType::kFloat32))
        return std::nullopt;
      return Link{reader, *what};
    }
    if (!node.args[1].is_value()) return std::nullopt;
    const bool is_sum = what == Arithmetic::kAdd || what == Arithmetic::kSub;
    if (is_sum && node.args.size() > 2 && !IsOne(node.args[2]))
      return std::nullopt;
    const bool comes_first = node.args[0].value() == image;
    const bool commutes = what == Arithmetic::kAdd || what == Arithmetic::kMul;
    if (!comes_first && !commutes) return std::nullopt;
    const ValueId operand = node.args[comes_first ? 1 : 0].value();
    if (!IsOneEachChannel(graph_.meta(operand), graph_.meta(image)))
      return std::nullopt;
    return Link{reader, *what, operand};
  }

  // [C, 1, 1], [1, C, 1, 1], or ones alone, in the image's dtype.
  bool IsOneEachChannel(const TensorMeta& operand,
                        const TensorMeta& image) const {
    if (operand.dtype != image.dtype || operand.rank() > image.rank())
      return false;
    const int missing = image.rank() - operand.rank();
    for (int d = 0; d < operand.rank(); ++d) {
      const SymExpr& size = operand.sizes[d];
      const bool is_channel =
          d + missing == 1 && graph_.shapes.KnownEq(size, image.sizes[1]);
      if (!size.Is(1) && !is_channel) return false;
    }
    return true;
  }

  // Moves `image` behind its relu if that alone reads it, perhaps behind another image
  // that is added before that; whether there is a relu.
  bool GoesToRelu(ValueId& image) const {
    static const OpDef& kRelu = KnownOp("aten.relu.default");
    static const OpDef& kAdd = KnownOp("aten.add.Tensor");
    uint32_t reader = readers_.OnlyReader(image);
    if (reader != kNobody && graph_.nodes()[reader].op == &kAdd) {
      const Node& add = graph_.nodes()[reader];
      for (const size_t side : {0, 1})
        if (!add.args[side].is_value()) return false;
      const ValueId other =
          add.args[add.args[0].value() == image ? 1 : 0].value();
      if (graph_.meta(other).dtype != graph_.meta(image).dtype ||
          graph_.meta(other).sizes != graph_.meta(image).sizes) {
        return false;
      }
      reader = readers_.OnlyReader(add.results[0]);
    }
    if (reader == kNobody || graph_.nodes()[reader].op != &kRelu) return false;
    image = graph_.nodes()[reader].results[0];
    return true;
  }

  bool Pays(const Chain& chain, ValueId image) const {
    const bool goes_to_relu = GoesToRelu(image);
    if (!(goes_to_relu || OnCpu()) || !readers_.IsStored(image)) return false;
    bool scales = false;
    for (const Link& link : chain.links) {
      scales |= link.what == Arithmetic::kMul || link.what == Arithmetic::kDiv;
    }
    if (!scales) return true;
    const ValueId weights = graph_.nodes()[chain.convolution].args[1].value();
    return graph_.shapes.KnownLe(Elements(graph_.meta(weights).sizes) * 2,
                                 Elements(graph_.meta(image).sizes));
  }

  const Graph& graph_;
  const Readers readers_;
};

// image * scale + shift; each is [C] or [1], and none stands for 1 and 0.
struct Affine {
  std::optional<ValueId> scale, shift;
};

class ChainWriter {
 public:
  explicit ChainWriter(GraphRewriter& rewriter)
      : rewriter_(rewriter), e_(rewriter.graph()) {}

  // Writes the convolution that is the whole chain in place of its last link.
  absl::Status Write(const Chain& chain) {
    const Node& old = rewriter_.old_node(chain.convolution);
    Affine affine;
    if (old.args[2].is_value())
      affine.shift = e_.Compute(rewriter_.Map(old.args[2]).value());
    for (const Link& link : chain.links) Append(link, affine);
    Emitter::Args args;
    for (const Argument& arg : old.args) args.push_back(rewriter_.Map(arg));
    const DType dtype = e_.meta(args[1].value()).dtype;
    const DimVector sizes = e_.meta(args[1].value()).sizes;
    if (affine.scale.has_value()) {
      const ValueId scaled =
          e_.Mul(e_.Compute(args[1].value()), OfWeights(*affine.scale, sizes));
      args[1] = e_.ToDType(scaled, dtype);
    }
    if (affine.shift.has_value())
      args[2] = e_.ToDType(Stretched(*affine.shift, sizes[0]), dtype);
    const uint32_t last = chain.links.back().node;
    rewriter_.Attribute(last);
    const ValueId result = e_.Call(*old.op, args);
    RETURN_IF_ERROR(e_.status());
    rewriter_.Attribute(chain.convolution);
    rewriter_.Replace(last, {&result, 1});
    return absl::OkStatus();
  }

 private:
  void Append(const Link& link, Affine& affine) {
    if (link.what == Arithmetic::kConvert) return;
    const ValueId operand = e_.Compute(Flat(rewriter_.Map(link.operand)));
    std::optional<ValueId>& scale = affine.scale;
    std::optional<ValueId>& shift = affine.shift;
    switch (link.what) {
      case Arithmetic::kAdd:
        shift = shift.has_value() ? e_.Add(*shift, operand) : operand;
        break;
      case Arithmetic::kSub:
        shift = shift.has_value() ? e_.Sub(*shift, operand) : e_.Neg(operand);
        break;
      case Arithmetic::kMul:
        scale = scale.has_value() ? e_.Mul(*scale, operand) : operand;
        if (shift.has_value()) shift = e_.Mul(*shift, operand);
        break;
      case Arithmetic::kDiv:
        scale = scale.has_value()
                    ? e_.Div(*scale, operand)
                    : e_.Call("aten.reciprocal.default", {operand});
        if (shift.has_value()) shift = e_.Div(*shift, operand);
        break;
      case Arithmetic::kConvert:
        break;
    }
  }

  ValueId Flat(ValueId operand) {
    return e_.View(operand, {Elements(e_.meta(operand).sizes)});
  }

  // [C] as [C, 1, 1, 1].
  ValueId OfWeights(ValueId scale, const DimVector& weights) {
    DimVector sizes(weights.size(), SymExpr(1));
    sizes[0] = e_.meta(scale).sizes[0];
    return e_.View(scale, sizes);
  }

  ValueId Stretched(ValueId shift, const SymExpr& channels) {
    if (e_.meta(shift).sizes[0] == channels) return shift;
    return e_.Contiguous(e_.Expand(shift, {channels}));
  }

  GraphRewriter& rewriter_;
  Emitter e_;
};

}  // namespace

absl::StatusOr<Changed> FoldIntoConvolutions(Graph& graph, const PassEnv&) {
  std::vector<bool> goes(graph.nodes().size(), false);
  std::vector<std::optional<Chain>> ends(graph.nodes().size());
  int64_t folded = 0;
  {
    const ChainFinder finder(graph);
    for (uint32_t i = 0; i < graph.nodes().size(); ++i) {
      const std::optional<Chain> chain = finder.Find(i);
      // Where two convolutions meet, each may be an operand of the other's chain: the
      // first one takes it.
      if (!chain.has_value() ||
          absl::c_any_of(chain->links,
                         [&](const Link& link) { return goes[link.node]; }))
        continue;
      goes[i] = true;
      for (const Link& link : chain->links) goes[link.node] = true;
      ends[chain->links.back().node] = chain;
      folded += static_cast<int64_t>(chain->links.size());
    }
  }
  if (folded == 0) return Changed::kNo;
  GraphRewriter rewriter(graph);
  ChainWriter writer(rewriter);
  for (uint32_t i = 0; i < rewriter.num_old_nodes(); ++i) {
    if (ends[i].has_value()) {
      RETURN_IF_ERROR(writer.Write(*ends[i]));
    } else if (!goes[i]) {
      rewriter.Keep(i);
    }
  }
  rewriter.Finish();
  return Changed::Patterns(folded);
}

}  // namespace kiln
