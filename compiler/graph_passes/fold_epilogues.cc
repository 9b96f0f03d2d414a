#include "compiler/graph_passes/fold_epilogues.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/emitter.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr uint32_t kNoNode = Value::kNoNode;

enum class Product { kNone, kMm, kAddmm, kLinear, kConvolution };

Product ProductOf(const Node& node) {
  static const OpDef& kMm = KnownOp("aten.mm.default");
  static const OpDef& kAddmm = KnownOp("aten.addmm.default");
  static const OpDef& kLinear = KnownOp("aten.linear.default");
  static const OpDef& kConvolution = KnownOp("aten.convolution.default");
  if (node.op == &kMm) return Product::kMm;
  if (node.op == &kAddmm) return Product::kAddmm;
  if (node.op == &kLinear) return Product::kLinear;
  if (node.op == &kConvolution) return Product::kConvolution;
  return Product::kNone;
}

// "relu", "gelu_tanh", or "" for any other operator.
std::string ActivationOf(const Node& node) {
  static const OpDef& kRelu = KnownOp("aten.relu.default");
  static const OpDef& kGelu = KnownOp("aten.gelu.default");
  if (node.op == &kRelu) return "relu";
  if (node.op != &kGelu || node.args.size() < 2) return "";
  const std::string* form = std::get_if<std::string>(&node.args[1].v);
  return form != nullptr && *form == "tanh" ? "gelu_tanh" : "";
}

bool TakesActivation(const Graph& graph, Product product, DType dtype,
                     absl::string_view activation) {
  if (!IsFloat(dtype)) return false;
  if (graph.device == DeviceType::kCpu) return true;
  return product != Product::kConvolution && activation == "gelu_tanh" &&
         IsHalf(dtype);
}

bool TakesBias(const Graph& graph, Product product, const Node& node) {
  if (product == Product::kMm) return true;
  return product == Product::kConvolution && node.args[2].is_none() &&
         graph.device == DeviceType::kCpu;
}

// A product, what follows it up to `last`, and what of that it takes along.
struct Chain {
  uint32_t product = kNoNode;
  uint32_t last = kNoNode;
  std::vector<uint32_t> between;  // nodes that go: views, and the addition
  std::vector<uint32_t> views;    // of these, to be written again behind it
  std::optional<ValueId> bias;
  std::string activation;
};

class ChainFinder {
 public:
  explicit ChainFinder(const Graph& graph)
      : graph_(graph),
        uses_(graph.num_values(), 0),
        user_(graph.num_values(), kNoNode) {
    for (uint32_t i = 0; i < graph.nodes().size(); ++i) {
      Graph::VisitValues(graph.nodes()[i], [&](ValueId v) {
        ++uses_[v.index];
        user_[v.index] = i;
      });
    }
    for (const GraphOutput& output : graph.outputs) {
      if (const auto* v = std::get_if<ValueId>(&output.what)) ++uses_[v->index];
    }
    for (const Mutation& mutation : graph.mutations) {
      ++uses_[mutation.value.index];
    }
  }

  // Nothing when the product of node `i` takes nothing along.
  std::optional<Chain> Find(uint32_t i) const {
    const Node& node = graph_.nodes()[i];
    const Product product = ProductOf(node);
    if (product == Product::kNone) return std::nullopt;
    Chain chain;
    chain.product = i;
    // What has been walked past since `last`: it goes only if more follows.
    std::vector<uint32_t> passed;
    bool takes_bias = TakesBias(graph_, product, node);
    ValueId v = node.results[0];
    while (uses_[v.index] == 1 && user_[v.index] != kNoNode) {
      const uint32_t next = user_[v.index];
      const Node& follower = graph_.nodes()[next];
      if (IsPlainView(follower, v)) {
        passed.push_back(next);
        takes_bias = takes_bias && KeepsRows(product, follower, v);
        v = follower.results[0];
        continue;
      }
      const std::string activation = ActivationOf(follower);
      std::optional<ValueId> bias;
      if (activation.empty() && takes_bias) bias = BiasOf(product, follower, v);
      const bool taken =
          bias.has_value() ||
          TakesActivation(graph_, product, graph_.meta(v).dtype, activation);
      if ((activation.empty() && !bias.has_value()) || !taken ||
          graph_.meta(follower.results[0]) != graph_.meta(v)) {
        break;
      }
      Take(chain, passed, next);
      if (!activation.empty()) {
        chain.activation = activation;
        break;
      }
      chain.bias = bias;
      takes_bias = false;
      v = follower.results[0];
    }
    if (chain.last == kNoNode) return std::nullopt;
    return chain;
  }

 private:
  static void Take(Chain& chain, std::vector<uint32_t>& passed, uint32_t next) {
    if (chain.last != kNoNode) chain.between.push_back(chain.last);
    for (const uint32_t view : passed) {
      chain.between.push_back(view);
      chain.views.push_back(view);
    }
    passed.clear();
    chain.last = next;
  }

  // A view of `v` alone, of equal dtype.
  bool IsPlainView(const Node& node, ValueId v) const {
    return node.op->handling == Handling::kView && node.results.size() == 1 &&
           node.args[0].is_value() && node.args[0].value() == v &&
           graph_.meta(node.results[0]).dtype == graph_.meta(v).dtype;
  }

  // Whether a row of the product is a row of the view.
  bool KeepsRows(Product product, const Node& view, ValueId v) const {
    static const OpDef& kView = KnownOp("aten.view.default");
    static const OpDef& kUnsafeView = KnownOp("aten._unsafe_view.default");
    static const OpDef& kReshape = KnownOp("aten.reshape.default");
    if (product == Product::kConvolution) return false;
    const bool reshapes =
        view.op == &kView || view.op == &kUnsafeView || view.op == &kReshape;
    const DimVector& to = graph_.meta(view.results[0]).sizes;
    return reshapes && !to.empty() &&
           graph_.shapes.KnownEq(to.back(), graph_.meta(v).sizes.back());
  }

  static bool IsOne(const Argument& number) {
    if (const double* real = std::get_if<double>(&number.v)) return *real == 1;
    const SymExpr* whole = std::get_if<SymExpr>(&number.v);
    return whole != nullptr && whole->Is(1);
  }

  // The other side of an addition to `v`, when it is a bias of the product.
  std::optional<ValueId> BiasOf(Product product, const Node& add,
                                ValueId v) const {
    static const OpDef& kAdd = KnownOp("aten.add.Tensor");
    if (add.op != &kAdd || !add.args[0].is_value() || !add.args[1].is_value() ||
        (add.args.size() > 2 && !IsOne(add.args[2]))) {
      return std::nullopt;
    }
    const ValueId other =
        add.args[0].value() == v ? add.args[1].value() : add.args[0].value();
    const TensorMeta& bias = graph_.meta(other);
    const TensorMeta& whole = graph_.meta(v);
    if (bias.dtype != whole.dtype || !IsFloat(bias.dtype)) return std::nullopt;
    const size_t rank = bias.sizes.size();
    const size_t along =
        product == Product::kConvolution ? whole.sizes.size() - 1 : 1;
    if (rank != along) return std::nullopt;
    for (size_t d = 1; d < rank; ++d) {
      if (!bias.sizes[d].Is(1)) return std::nullopt;
    }
    const SymExpr& count =
        product == Product::kConvolution ? whole.sizes[1] : whole.sizes.back();
    if (!graph_.shapes.KnownEq(bias.sizes[0], count)) return std::nullopt;
    return other;
  }

  const Graph& graph_;
  std::vector<uint32_t> uses_;
  std::vector<uint32_t> user_;  // one of them
};

// Writes the products of chains.
class Writer {
 public:
  Writer(Emitter& e, const GraphRewriter& rewriter)
      : e_(e), rewriter_(rewriter) {}

  ValueId Write(const Chain& chain) {
    const Node& node = rewriter_.old_node(chain.product);
    ValueId y = Call(chain, ProductOf(node), Mapped(node));
    for (const uint32_t view : chain.views) {
      Emitter::Args args = Mapped(rewriter_.old_node(view));
      args[0] = y;
      y = e_.Call(*rewriter_.old_node(view).op, std::move(args));
    }
    return y;
  }

 private:
  Emitter::Args Mapped(const Node& node) const {
    Emitter::Args args;
    for (const Argument& arg : node.args) args.push_back(rewriter_.Map(arg));
    return args;
  }

  ValueId Call(const Chain& chain, Product product, Emitter::Args args) {
    std::optional<ValueId> bias;
    if (chain.bias.has_value()) bias = rewriter_.Map(*chain.bias);
    switch (product) {
      case Product::kMm:
        return Plus(bias, args[0], args[1], 1, 1, chain.activation);
      case Product::kAddmm:
        return Plus(args[0].value(), args[1], args[2],
                    args.size() > 3 ? args[3] : Argument(1),
                    args.size() > 4 ? args[4] : Argument(1), chain.activation);
      case Product::kLinear:
        return Linear(args, chain.activation);
      case Product::kConvolution:
        return Convolution(bias, std::move(args), chain.activation);
      case Product::kNone:
        break;
    }
    e_.Fail(absl::InternalError("a chain without a product"));
    return ValueId{0};
  }

  ValueId Plus(std::optional<ValueId> bias, const Argument& a,
               const Argument& b, const Argument& beta, const Argument& alpha,
               const std::string& activation) {
    static const OpDef& kAddmm = KnownOp("aten.addmm.default");
    static const OpDef& kMm = KnownOp("prims.mm_activation.default");
    static const OpDef& kBoth = KnownOp("prims.addmm_activation.default");
    if (!bias.has_value()) return e_.Call(kMm, {a, b, activation});
    if (activation.empty()) return e_.Call(kAddmm, {*bias, a, b, beta, alpha});
    return e_.Call(kBoth, {*bias, a, b, beta, alpha, activation});
  }

  // linear(input, weight, bias): the leading dimensions of the input are rows.
  ValueId Linear(const Emitter::Args& args, const std::string& activation) {
    const ValueId x = args[0].value();
    DimVector sizes = e_.meta(x).sizes;
    SymExpr rows = 1;
    for (size_t d = 0; d + 1 < sizes.size(); ++d) rows *= sizes[d];
    const ValueId flat = e_.Reshape(x, {rows, sizes.back()});
    const ValueId turned = e_.Transpose(args[1].value(), 0, 1);
    std::optional<ValueId> bias;
    if (args.size() > 2 && args[2].is_value()) bias = args[2].value();
    sizes.back() = e_.meta(turned).sizes[1];
    return e_.View(Plus(bias, flat, turned, 1, 1, activation), sizes);
  }

  ValueId Convolution(std::optional<ValueId> bias, Emitter::Args args,
                      const std::string& activation) {
    static const OpDef& kPlain = KnownOp("aten.convolution.default");
    static const OpDef& kActivated =
        KnownOp("prims.convolution_activation.default");
    if (bias.has_value()) {
      args[2] = e_.Reshape(*bias, {e_.meta(*bias).sizes[0]});
    }
    if (activation.empty()) return e_.Call(kPlain, std::move(args));
    args.push_back(activation);
    return e_.Call(kActivated, std::move(args));
  }

  Emitter& e_;
  const GraphRewriter& rewriter_;
};

}  // namespace

absl::StatusOr<Changed> FoldEpilogues(Graph& graph, const PassEnv& env) {
  if (env.options.artifact.emulate_precision_casts) return Changed::kNo;
  const uint32_t count = static_cast<uint32_t>(graph.nodes().size());
  std::vector<std::optional<Chain>> ends(count);  // by their last node
  std::vector<bool> gone(count, false);
  int64_t found = 0;
  {
    const ChainFinder finder(graph);
    for (uint32_t i = 0; i < count; ++i) {
      std::optional<Chain> chain = finder.Find(i);
      if (!chain.has_value()) continue;
      ++found;
      gone[i] = true;
      for (const uint32_t node : chain->between) gone[node] = true;
      const uint32_t last = chain->last;
      ends[last] = std::move(chain);
    }
  }
  if (found == 0) return Changed::kNo;
  GraphRewriter rewriter(graph);
  Emitter e(graph);
  Writer writer(e, rewriter);
  for (uint32_t i = 0; i < count; ++i) {
    if (gone[i]) continue;
    if (!ends[i].has_value()) {
      rewriter.Keep(i);
      continue;
    }
    const ValueId y = writer.Write(*ends[i]);
    RETURN_IF_ERROR(e.status());
    rewriter.Replace(i, {&y, 1});
  }
  rewriter.Finish();
  return Changed::Patterns(found);
}

}  // namespace kiln
