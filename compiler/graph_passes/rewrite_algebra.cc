#include "compiler/graph_passes/rewrite_algebra.h"

#include <cmath>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/emitter.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// A node with its arguments as values of the new graph.
struct Site {
  const Node& node;
  const TensorMeta& meta;  // of its first result
  Emitter::Args args;
  bool escapes;  // the result's memory may leave the graph
  Emitter& e;

  ValueId self() const { return args[0].value(); }
};

// The value that the node may be replaced by; none: it stays.
using RewriteFn = std::optional<ValueId> (*)(Site& s);

// A number that is exactly `value`, as integer or float.
bool IsNumber(const Argument& arg, double value) {
  if (const double* f = std::get_if<double>(&arg.v)) {
    return *f == value && std::signbit(*f) == std::signbit(value);
  }
  const SymExpr* e = std::get_if<SymExpr>(&arg.v);
  return e != nullptr && e->is_constant() && e->constant() == value &&
         !std::signbit(value);
}

// `v` when it is all that the node would give, and when nobody outside can
// tell that it has no memory of its own.
std::optional<ValueId> If(bool holds, Site& s, ValueId v) {
  const TensorMeta& meta = s.e.meta(v);
  if (holds && !s.escapes && meta.dtype == s.meta.dtype &&
      meta.sizes == s.meta.sizes && meta.strides == s.meta.strides) {
    return v;
  }
  return std::nullopt;
}

bool HasNumber(const Site& s) {
  return s.args[0].is_value() && !s.args[1].is_value();
}

bool AlphaIsOne(const Site& s) {
  return s.args.size() < 3 || IsNumber(s.args[2], 1.0);
}

std::optional<ValueId> TimesOne(Site& s) {
  if (!HasNumber(s)) return std::nullopt;
  return If(IsNumber(s.args[1], 1.0), s, s.self());
}

std::optional<ValueId> PlusNothing(Site& s) {
  if (!HasNumber(s) || !AlphaIsOne(s)) return std::nullopt;
  const bool floating = IsFloat(s.meta.dtype);
  return If(IsNumber(s.args[1], floating ? -0.0 : 0.0), s, s.self());
}

std::optional<ValueId> MinusNothing(Site& s) {
  if (!HasNumber(s) || !AlphaIsOne(s)) return std::nullopt;
  return If(IsNumber(s.args[1], 0.0), s, s.self());
}

// As eager mode computes these exponents.
std::optional<ValueId> Power(Site& s) {
  if (!HasNumber(s)) return std::nullopt;
  Emitter& e = s.e;
  const Argument& exponent = s.args[1];
  if (IsNumber(exponent, 1.0)) return If(true, s, s.self());
  const bool floating = IsFloat(s.meta.dtype);
  if (floating != IsFloat(e.dtype(s.self()))) return std::nullopt;
  // Before anything is written: a pass that changes nothing leaves no orphan.
  const bool whole = IsNumber(exponent, 2.0) || IsNumber(exponent, 3.0);
  const bool root = IsNumber(exponent, 0.5) || IsNumber(exponent, -0.5) ||
                    IsNumber(exponent, -1.0);
  if (!whole && !(floating && root)) return std::nullopt;
  const ValueId x = floating ? e.Compute(s.self()) : s.self();
  ValueId y{0};
  if (IsNumber(exponent, 2.0)) {
    y = e.Mul(x, x);
  } else if (IsNumber(exponent, 3.0)) {
    y = e.Mul(e.Mul(x, x), x);
  } else if (IsNumber(exponent, 0.5)) {
    y = e.Sqrt(x);
  } else if (IsNumber(exponent, -0.5)) {
    y = e.Rsqrt(x);
  } else {
    y = e.Call("aten.reciprocal.default", {x});
  }
  return e.ToDType(y, s.meta.dtype);
}

// Whether every value of `from` is one of `to`.
bool IsLossless(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::kBool) return true;
  if (IsHalf(from)) return to == DType::kFloat32 || to == DType::kFloat64;
  if (from == DType::kFloat32) return to == DType::kFloat64;
  if (IsInteger(from) && IsInteger(to) && from != DType::kUInt8) {
    return SizeInBytes(from) <= SizeInBytes(to) && to != DType::kUInt8;
  }
  return false;
}

std::optional<ValueId> Convert(Site& s) {
  static const OpDef& kConvert = KnownOp("prims.convert_element_type.default");
  Emitter& e = s.e;
  if (e.dtype(s.self()) == s.meta.dtype) return If(true, s, s.self());
  const Value& from = e.graph().value(s.self());
  if (from.node == Value::kNoNode) return std::nullopt;
  const Node& before = e.graph().nodes()[from.node];
  if (before.op != &kConvert) return std::nullopt;
  const ValueId source = before.args[0].value();
  if (!IsLossless(e.dtype(source), e.dtype(s.self()))) return std::nullopt;
  // The one cast is laid out as the first of the two. Where this does not fit,
  // it must not be written at all.
  if (s.escapes || e.meta(s.self()).strides != s.meta.strides)
    return std::nullopt;
  return If(true, s, e.ToDType(source, s.meta.dtype));
}

// A copy of what already has this layout.
std::optional<ValueId> Copy(Site& s) { return If(true, s, s.self()); }

std::optional<ValueId> SumOfOne(Site& s) {
  Emitter& e = s.e;
  const TensorMeta& x = e.meta(s.self());
  if (x.dtype != s.meta.dtype || !s.args[1].is_list()) return std::nullopt;
  const Argument::List& dims = s.args[1].list();
  if (dims.empty()) return std::nullopt;
  for (const Argument& dim : dims) {
    const int64_t d = dim.sym().constant();
    if (x.rank() == 0 || !x.sizes[d < 0 ? d + x.rank() : d].Is(1)) {
      return std::nullopt;
    }
  }
  if (s.escapes) return std::nullopt;
  return e.View(s.self(), s.meta.sizes);
}

std::optional<ValueId> WhereSame(Site& s) {
  const bool same = s.args[1].is_value() && s.args[1] == s.args[2];
  if (!same) return std::nullopt;
  return If(true, s, s.args[1].value());
}

// An addmm or baddbmm of which only the bias counts: libraries read no factor then, so
// that their NaNs are none of the result's. A product times 0 is another thing.
std::optional<ValueId> BiasAlone(Site& s) {
  constexpr size_t kBeta = 3, kAlpha = 4;
  const auto is_zero = [&](size_t arg) {
    return IsNumber(s.args[arg], 0.0) || IsNumber(s.args[arg], -0.0);
  };
  if (!is_zero(kAlpha) || s.meta.strides != ContiguousStrides(s.meta.sizes))
    return std::nullopt;
  if (is_zero(kBeta)) return s.e.Full(s.meta.sizes, 0, s.meta.dtype);
  ValueId bias = s.self();
  if (!IsNumber(s.args[kBeta], 1.0))
    bias = s.e.Call("aten.mul.Scalar", {bias, s.args[kBeta]});
  return s.e.Contiguous(s.e.Expand(bias, s.meta.sizes));
}

struct RewriteRow {
  absl::string_view op;
  RewriteFn run;
};

constexpr RewriteRow kRows[] = {
    {"aten.mul.Tensor", TimesOne},
    {"aten.mul.Scalar", TimesOne},
    {"aten.div.Tensor", TimesOne},
    {"aten.div.Scalar", TimesOne},
    {"aten.add.Tensor", PlusNothing},
    {"aten.add.Scalar", PlusNothing},
    {"aten.sub.Tensor", MinusNothing},
    {"aten.sub.Scalar", MinusNothing},
    {"aten.pow.Tensor_Scalar", Power},
    {"prims.convert_element_type.default", Convert},
    {"aten._to_copy.default", Copy},
    {"aten.clone.default", Copy},
    {"aten.lift_fresh_copy.default", Copy},
    {"aten.sum.dim_IntList", SumOfOne},
    {"aten.where.self", WhereSame},
    {"aten.addmm.default", BiasAlone},
    {"aten.baddbmm.default", BiasAlone},
};

std::vector<RewriteFn> JoinRows() {
  std::vector<RewriteFn> table(AllOps().size(), nullptr);
  for (const RewriteRow& row : kRows) {
    const OpDef* op = FindOp(row.op);
    if (op != nullptr) table[op->index] = row.run;
  }
  return table;
}

// Which values' memory leaves the graph: outputs, new values of inputs, and what
// these are views of.
std::vector<bool> EscapingValues(const Graph& graph) {
  std::vector<bool> escapes(graph.num_values(), false);
  for (const GraphOutput& output : graph.outputs) {
    if (const ValueId* id = std::get_if<ValueId>(&output.what)) {
      escapes[id->index] = true;
    }
  }
  for (const Mutation& mutation : graph.mutations) {
    escapes[mutation.value.index] = true;
  }
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    if (node.op->handling != Handling::kView) continue;
    for (ValueId result : node.results) {
      if (escapes[result.index]) escapes[node.args[0].value().index] = true;
    }
  }
  return escapes;
}

// The value of the chain of views above `v` that shows just what `meta` says.
// All lie in one memory, so equal sizes, strides and offset are the same view.
std::optional<ValueId> SameView(const Graph& graph, ValueId v,
                                const TensorMeta& meta) {
  for (;;) {
    if (graph.meta(v) == meta) return v;
    const uint32_t producer = graph.value(v).node;
    if (producer == Value::kNoNode) return std::nullopt;
    const Node& node = graph.nodes()[producer];
    if (node.op->handling != Handling::kView) return std::nullopt;
    v = node.args[0].value();
  }
}

}  // namespace

absl::StatusOr<Changed> RewriteAlgebra(Graph& graph, const PassEnv&) {
  static const std::vector<RewriteFn>* const kTable =
      new std::vector<RewriteFn>(JoinRows());
  const std::vector<bool> escapes = EscapingValues(graph);
  GraphRewriter rewriter(graph);
  Emitter e(graph);
  bool changed = false;
  for (uint32_t i = 0; i < rewriter.num_old_nodes(); ++i) {
    const Node& old = rewriter.old_node(i);
    std::optional<ValueId> now;
    if (old.op->handling == Handling::kView) {
      const ValueId source = old.args[0].value();
      const ValueId shown = rewriter.Map(source);
      // Where the source is laid out anew, the view is another one too.
      if (old.results.size() == 1 &&
          graph.meta(shown) == rewriter.old_meta(source)) {
        now = SameView(graph, shown, rewriter.old_meta(old.results[0]));
      }
    } else if (const RewriteFn run = (*kTable)[old.op->index]) {
      Site site{old,
                rewriter.old_meta(old.results[0]),
                {},
                escapes[old.results[0].index],
                e};
      for (const Argument& a : old.args) site.args.push_back(rewriter.Map(a));
      now = run(site);
      RETURN_IF_ERROR(e.status());
    }
    if (now.has_value()) {
      rewriter.Replace(i, {&*now, 1});
      changed = true;
    } else {
      rewriter.Keep(i);
    }
  }
  rewriter.Finish();
  return changed ? Changed::kYes : Changed::kNo;
}

}  // namespace kiln
