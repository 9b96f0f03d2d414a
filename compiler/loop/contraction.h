#ifndef KILN_COMPILER_LOOP_CONTRACTION_H_
#define KILN_COMPILER_LOOP_CONTRACTION_H_

// Sums of products over named axes: matrix products, convolutions and the
// gradients of both. A contraction says what is computed; the schedule decides
// whether a library or generated loops compute it.

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

// One of the three arrays: a view, and one index expression for each of its
// dimensions. Reads outside of the view give 0; writes outside are dropped.
struct ContractionOperand {
  View view;
  DimVector index;  // over Axis(k), the contraction's axes
};

// The position of an axis decides its meaning. The letters are for people.
//
//   product      [b,] m, n, k        a[b, m, k] * b[b, k, n] = c[b, m, n]
//   convolution  b, g, o, c, y..., w...
//                a[b, C/g*g + c, stride * y + dilation * w - padding...]  image
//                b[O/g*g + o, c, w...]                                    weights
//                c[b, O/g*g + o, y...]                                    result
//
// One of the three is written. Each of its elements is the sum of the products of
// the other two, over all points of the axes that its index maps to the element.
struct Contraction {
  enum class Form : uint8_t { kProduct, kConvolution };
  enum Place : uint8_t { kA, kB, kC };  // of an operand
  static constexpr int kMaxSpatial = 3;

  Form form = Form::kProduct;
  std::vector<std::string> origins;    // operators it came from, in order
  std::vector<uint32_t> client_nodes;  // as a nest's
  DimVector extents;                   // of the axes
  std::array<ContractionOperand, 3> operands;
  Place written = kC;

  // How an element is computed. The factors are leaves (kFactor: number 0 is the
  // first of the operands that are read). kContract sums the products of its two
  // arguments, in its own dtype. Nodes before it apply to each factor, nodes after
  // it to each sum; loads of the latter may use the axes that the written operand's
  // index names.
  std::vector<ScalarNode> body;
  ScalarId value = 0;  // in the written operand's dtype

  // What may be rounded for speed.
  bool allow_tf32 = false;          // f32 factors, to 10 bits of fraction
  bool allow_reduced_sums = false;  // parts of a half type's sum, to that type
  // Of a convolution: sums are added in the same order in every run.
  bool deterministic = false;

  // For people: the tuning decision that it was changed by, "tuned: align peel", or why
  // one was ignored. In no text, and no kernel depends on it.
  std::string tuned;

  const ContractionOperand& result() const { return operands[written]; }
  ContractionOperand& result() { return operands[written]; }
  // The operand that is factor 0 or 1.
  const ContractionOperand& factor(int number) const {
    return operands[number + (static_cast<int>(written) <= number ? 1 : 0)];
  }
  bool is_batched() const { return extents.size() == 4; }      // of a product
  size_t spatial() const { return (extents.size() - 4) / 2; }  // convolution
};

// "m", "y1": what axis k of the contraction is.
std::string AxisName(const Contraction& contraction, size_t k);
absl::string_view FormName(Contraction::Form form);
absl::string_view OperandName(size_t place);  // "a", "b", "c"

// Whether the number of axes is right for the form. If not, `due` gets a text that
// lists the axes that are.
bool HasKnownAxes(const Contraction& contraction, std::string& due);

// The node that is the sum. A verified body has one.
ScalarId SumOf(const Contraction& contraction);

// Whether the factors are multiplied unchanged, in the sum's type.
bool HasPlainFactors(const Contraction& contraction);

// Calls visit(view) for what is read as an array, then visit(node) for each load of
// the body.
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
