// Softmax along a dimension, its logarithm, and their gradients.

#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "compiler/reference/reference_table.h"
#include "compiler/reference/rows.h"

namespace kiln {
namespace {

// Replaces the numbers of each row along "dim".
RefResults RowByRow(
    RefCall& call,
    const std::function<void(std::vector<double>& row)>& change) {
  Elements x = call.Load("self").AsFloats();
  for (const auto& members : CutAlong(x.sizes, call.Int("dim")).members) {
    std::vector<double> row;
    for (int64_t k : members) row.push_back(x.f[k]);
    change(row);
    for (size_t m = 0; m < members.size(); ++m) x.f[members[m]] = row[m];
  }
  return {call.Make(0, x)};
}

double Top(const std::vector<double>& row) {
  double top = -INFINITY;
  for (double v : row) top = v > top || std::isnan(v) ? v : top;
  return top;
}

// A row of -infinity alone gives NaN, as in eager mode.
void SoftmaxRow(std::vector<double>& row) {
  const double top = Top(row);
  double sum = 0;
  for (double& v : row) sum += v = std::exp(v - top);
  for (double& v : row) v /= sum;
}

void LogSoftmaxRow(std::vector<double>& row) {
  const double top = Top(row);
  double sum = 0;
  for (double v : row) sum += std::exp(v - top);
  for (double& v : row) v = v - top - std::log(sum);
}

// The safe form gives zeros where all is -infinity.
void SafeSoftmaxRow(std::vector<double>& row) {
  if (Top(row) == -INFINITY) {
    for (double& v : row) v = 0;
    return;
  }
  SoftmaxRow(row);
}

template <void (*change)(std::vector<double>&)>
RefResults Rowwise(RefCall& call) {
  return RowByRow(call, change);
}

// The gradient from that of the result and the result, row by row: fn(grad,
// output, sums over the row of grad and of grad * output).
template <auto fn>
RefResults BackwardRows(RefCall& call) {
  const Elements g = call.Load("grad_output"), y = call.Load("output");
  Elements grad = Elements::Floats(g.sizes);
  for (const auto& members : CutAlong(g.sizes, call.Int("dim")).members) {
    double sum = 0, dot = 0;
    for (int64_t k : members) {
      sum += g.F(k);
      dot += g.F(k) * y.F(k);
    }
    for (int64_t k : members) grad.f[k] = fn(g.F(k), y.F(k), sum, dot);
  }
  return {call.Make(0, grad)};
}

constexpr auto kSoftmaxGradient = [](double g, double y, double, double dot) {
  return y * (g - dot);
};
constexpr auto kLogSoftmaxGradient = [](double g, double y, double sum,
                                        double) {
  return g - std::exp(y) * sum;
};

constexpr ReferenceRow kRows[] = {
    {"aten._softmax.default", Rowwise<SoftmaxRow>},
    {"aten._log_softmax.default", Rowwise<LogSoftmaxRow>},
    {"aten._safe_softmax.default", Rowwise<SafeSoftmaxRow>},
    {"aten.softmax.int", Rowwise<SoftmaxRow>},
    {"aten.log_softmax.int", Rowwise<LogSoftmaxRow>},
    {"aten._softmax_backward_data.default", BackwardRows<kSoftmaxGradient>},
    {"aten._log_softmax_backward_data.default",
     BackwardRows<kLogSoftmaxGradient>},
};

}  // namespace

absl::Span<const ReferenceRow> SoftmaxReferences() { return kRows; }

}  // namespace kiln
