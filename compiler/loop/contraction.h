#ifndef KILN_COMPILER_LOOP_CONTRACTION_H_
#define KILN_COMPILER_LOOP_CONTRACTION_H_

// Sums of products over named axes: matrix products, convolutions, and the gradients of
// both. A contraction says what is computed. The schedule decides whether a library or
// generated loops compute it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/loop/buffer.h"
#include "compiler/loop/scalar_expr.h"
#include "compiler/sym/sym_expr.h"

namespace kiln {

// One of the three arrays: a view, and an index expression for each of its dimensions.
// Reads out of bounds give 0; writes out of bounds are dropped.
struct ContractionOperand {
  View view;
  DimVector index;  // over Axis(k), the contraction's axes
};

// The position of an axis determines its meaning. The letters are for people.
//
//   product      [b,] m, n, k        a[b, m, k] * b[b, k, n] = c[b, m, n]
//   convolution  b, g, o, c, y..., w...
//                a[b, C/g*g + c, stride * y + dilation * w - padding...]  image
//                b[O/g*g + o, c, w...]                                    weights
//                c[b, O/g*g + o, y...]                                    result
//
// One of the three arrays is written. Each of its elements is the sum of the products of
// the other two, over all points of the axes that its index maps to that element.
struct Contraction {
  enum class Form : uint8_t { kProduct, kConvolution };
  enum Place : uint8_t { kA, kB, kC };  // of an operand
  static constexpr int kMaxSpatial = 3;

  Form form = Form::kProduct;
  std::vector<std::string> origins;    // operators it came from, in order
  std::vector<uint32_t> client_nodes;  // see LoopNest::client_nodes
  DimVector extents;                   // of the axes
  std::array<ContractionOperand, 3> operands;
  Place written = kC;

  // How an element is computed. The factors are leaves (kFactor; number 0 is the first
  // operand that is read). kContract sums the products of its two arguments, in its own
  // dtype. Nodes before it apply to each factor, and nodes after it to each sum; loads
  // among the latter may use the axes in the written operand's index.
  std::vector<ScalarNode> body;
  ScalarId value = 0;  // in the written operand's dtype

  // Roundings that are allowed for speed.
  bool allow_tf32 = false;  // f32 factors to 10 bits of fraction
  bool allow_reduced_sums =
      false;  // partial sums of half types to the half type
  // A convolution must add its sums in the same order in every run.
  bool deterministic = false;

  // For people: the tuning decision that changed it, "tuned: align peel", or why one was
  // ignored. Not in the text, and no kernel depends on it.
  std::string tuned;

  const ContractionOperand& result() const { return operands[written]; }
  ContractionOperand& result() { return operands[written]; }
  // The operand that is factor 0 or 1.
  const ContractionOperand& factor(int number) const {
    return operands[number + (static_cast<int>(written) <= number ? 1 : 0)];
  }
  // For a product.
  bool is_batched() const { return extents.size() == 4; }
  // For a convolution: the number of spatial dimensions.
  size_t spatial() const { return (extents.size() - 4) / 2; }
};

// The letter of axis k: "m", "y1".
std::string AxisName(const Contraction& contraction, size_t k);
absl::string_view FormName(Contraction::Form form);
absl::string_view OperandName(size_t place);  // "a", "b", "c"

// Whether the form can have this number of axes. If not, sets `expected` to a text that
// lists the axes of the form.
bool HasKnownAxes(const Contraction& contraction, std::string& expected);

// The node that is the sum. A verified body has exactly one.
ScalarId SumOf(const Contraction& contraction);

// Whether the factors are multiplied unchanged, in the sum's type.
bool HasPlainFactors(const Contraction& contraction);

// Calls view(view) for each factor, then load(node) for each load in the body.
template <typename VisitView, typename VisitLoad>
void VisitReads(const Contraction& contraction, VisitView view,
                VisitLoad load) {
  view(contraction.factor(0).view);
  view(contraction.factor(1).view);
  for (const ScalarNode& node : contraction.body)
    if (node.op == ScalarOp::kLoad) load(node);
}

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_CONTRACTION_H_
