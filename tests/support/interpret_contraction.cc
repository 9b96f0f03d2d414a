#include <map>
#include <vector>

#include "tests/support/loop_interpreter.h"

namespace kiln {
namespace {

// Every point of `extents`, in order.
template <typename Visit>
void ForEachPoint(absl::Span<const int64_t> extents, Visit visit) {
  std::vector<int64_t> point(extents.size(), 0);
  for (const int64_t extent : extents)
    if (extent == 0) return;
  while (true) {
    visit(point);
    size_t d = point.size();
    while (d > 0 && ++point[d - 1] == extents[d - 1]) point[--d] = 0;
    if (d == 0) return;
  }
}

// The value of a node; `leaf` knows factors, loads, indices and the sum.
template <typename Leaf>
Cell ValueOf(const std::vector<ScalarNode>& body, ScalarId id, Leaf leaf) {
  const ScalarNode& node = body[id];
  if (node.op == ScalarOp::kConstant) {
    return IsFloat(node.dtype) ? Cell{node.number.f, 0}
                               : Cell{0, node.number.i};
  }
  if (node.op == ScalarOp::kFactor || node.op == ScalarOp::kLoad ||
      node.op == ScalarOp::kContract || node.op == ScalarOp::kIndex) {
    return leaf(node);
  }
  std::vector<Cell> args;
  for (const ScalarId arg : node.args) args.push_back(ValueOf(body, arg, leaf));
  return ComputeScalar(node, body[node.args[0]].dtype, absl::MakeSpan(args));
}

// A point whose element of the result is `at`, where no product goes: what the
// index of the channel, or an axis alone, says of it.
std::vector<int64_t> PointAt(const Contraction& c,
                             const std::vector<int64_t>& at,
                             absl::Span<const int64_t> extents) {
  std::vector<int64_t> point(extents.size(), 0);
  for (size_t d = 0; d < at.size(); ++d) {
    Var axis;
    if (c.result().index[d].AsVar(&axis)) point[axis.index] = at[d];
  }
  if (c.form == Contraction::Form::kConvolution &&
      c.written != Contraction::kB) {
    const size_t channel = c.written == Contraction::kA ? 3 : 2;
    point[1] = at[1] / extents[channel];
    point[channel] = at[1] % extents[channel];
  }
  return point;
}

}  // namespace

void RunContraction(
    const Contraction& c, absl::Span<const MemoryView> arrays,
    absl::Span<const int64_t> extents,
    absl::FunctionRef<int64_t(const SymExpr&, absl::Span<const int64_t>)>
        evaluate,
    absl::FunctionRef<Cell(const ScalarNode&, absl::Span<const int64_t>)>
        load) {
  using Index = std::vector<int64_t>;
  const ScalarId sum = SumOf(c);
  std::map<Index, Cell> sums;
  std::map<Index, Index> points;  // where each element of the result comes from
  ForEachPoint(extents, [&](const Index& point) {
    Index at[3];
    for (size_t place = 0; place < 3; ++place) {
      for (size_t d = 0; d < c.operands[place].index.size(); ++d) {
        const int64_t k = evaluate(c.operands[place].index[d], point);
        if (k < 0 || k >= arrays[place].sizes[d]) return;
        at[place].push_back(k);
      }
    }
    const auto factor = [&](const ScalarNode& node) {
      const size_t place =
          node.number.i + (static_cast<int64_t>(c.written) <= node.number.i);
      return arrays[place].At(at[place]);
    };
    const Cell a = ValueOf(c.body, c.body[sum].args[0], factor),
               b = ValueOf(c.body, c.body[sum].args[1], factor);
    Cell& total = sums[at[c.written]];
    total.f += a.f * b.f;
    total.i += a.i * b.i;
    points.emplace(at[c.written], point);
  });
  ForEachPoint(arrays[c.written].sizes, [&](const Index& at) {
    Cell total = sums[at];
    if (c.body[sum].dtype == DType::kFloat32)
      total.f = static_cast<float>(total.f);
    const auto found = points.find(at);
    const Index point =
        found != points.end() ? found->second : PointAt(c, at, extents);
    const auto leaf = [&](const ScalarNode& node) {
      if (node.op == ScalarOp::kContract) return total;
      if (node.op == ScalarOp::kIndex)
        return Cell{0, evaluate(node.index[0], point)};
      return load(node, point);
    };
    arrays[c.written].Set(at, ValueOf(c.body, c.value, leaf));
  });
}

}  // namespace kiln
