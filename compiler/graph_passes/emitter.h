#ifndef KILN_COMPILER_GRAPH_PASSES_EMITTER_H_
#define KILN_COMPILER_GRAPH_PASSES_EMITTER_H_

// Writes operators as a formula reads: e.Mul(e.Sub(x, mean), rstd).
//
// The first error is kept and told by status(); what follows it does nothing
// and returns the first value of the graph, so a formula needs no checks
// inside. Whoever writes a formula asks for status() once, at its end.
//
// Everything written is a kView, kLower or kStep operator. Operands
// broadcast by themselves: no expands are written.

#include <cstdint>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "compiler/graph/graph.h"

namespace kiln {

// A value or a number, as the second operand of an elementwise operator.
using Operand = Argument;

class Emitter {
 public:
  using Args = absl::InlinedVector<Argument, 4>;
  using Dims = absl::Span<const int64_t>;

  // `graph` outlives the emitter.
  explicit Emitter(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  const TensorMeta& meta(ValueId v) const { return graph_.meta(v); }
  DType dtype(ValueId v) const { return meta(v).dtype; }
  int rank(ValueId v) const { return meta(v).rank(); }
  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status) { status_.Update(std::move(status)); }

  // Any operator: its first result, or all.
  ValueId Call(const OpDef& op, Args args);
  absl::InlinedVector<ValueId, 1> CallAll(const OpDef& op, Args args);
  // By name; a name that is not in the table ends the process.
  ValueId Call(absl::string_view op, Args args);

  // Dtypes. ToDType writes nothing when `v` has it. Compute brings half types
  // to f32, the type all arithmetic on them is done in, and integers and bool
  // too.
  ValueId ToDType(ValueId v, DType dtype);
  ValueId Compute(ValueId v);

  // Elementwise.
  ValueId Add(ValueId a, Operand b);
  ValueId Sub(ValueId a, Operand b);
  ValueId Rsub(ValueId a, Operand b);  // b - a
  ValueId Mul(ValueId a, Operand b);
  ValueId Div(ValueId a, Operand b);
  ValueId Pow(ValueId a, double exponent);
  ValueId Neg(ValueId a);
  ValueId Abs(ValueId a);
  ValueId Exp(ValueId a);
  ValueId Log(ValueId a);
  ValueId Log1p(ValueId a);
  ValueId Expm1(ValueId a);
  ValueId Sqrt(ValueId a);
  ValueId Rsqrt(ValueId a);
  ValueId Tanh(ValueId a);
  ValueId Sigmoid(ValueId a);
  ValueId Erf(ValueId a);
  ValueId Square(ValueId a) { return Mul(a, a); }
  ValueId Maximum(ValueId a, ValueId b);
  ValueId ClampMin(ValueId a, double least);
  ValueId ClampMax(ValueId a, double most);
  ValueId Eq(ValueId a, Operand b);
  ValueId Ne(ValueId a, Operand b);
  ValueId Lt(ValueId a, Operand b);
  ValueId Le(ValueId a, Operand b);
  ValueId Gt(ValueId a, Operand b);
  ValueId Ge(ValueId a, Operand b);
  ValueId And(ValueId a, ValueId b);
  ValueId Not(ValueId a);
  ValueId Where(ValueId condition, ValueId yes, ValueId no);
  // The same with a number on one side, of the other side's dtype.
  ValueId Where(ValueId condition, ValueId yes, double no);
  ValueId Where(ValueId condition, double yes, ValueId no);

  // Reductions over `dims`; keep: they stay, with size 1.
  enum class Keep : bool { kNo, kYes };
  ValueId Sum(ValueId v, Dims dims, Keep keep);
  ValueId Amax(ValueId v, Dims dims, Keep keep);
  ValueId Amin(ValueId v, Dims dims, Keep keep);
  ValueId Mean(ValueId v, Dims dims, Keep keep);  // Sum / Count
  // How many elements one reduction over `dims` takes in.
  SymExpr Count(ValueId v, Dims dims) const;

  // Views. Reshape copies where no view is possible.
  ValueId View(ValueId v, const DimVector& sizes);
  ValueId Reshape(ValueId v, const DimVector& sizes);
  ValueId Permute(ValueId v, Dims dims);
  ValueId Transpose(ValueId v, int64_t a, int64_t b);
  ValueId Unsqueeze(ValueId v, int64_t dim);
  ValueId Squeeze(ValueId v, Dims dims);
  ValueId Expand(ValueId v, const DimVector& sizes);
  ValueId Slice(ValueId v, int64_t dim, SymExpr start, SymExpr end,
                SymExpr step);
  ValueId Select(ValueId v, int64_t dim, SymExpr index);
  // The elements at the places of a list along `dim`, and at a place of each
  // element's own. All places are in range.
  ValueId IndexDim(ValueId v, int64_t dim, ValueId places);
  ValueId Gather(ValueId v, int64_t dim, ValueId places);

  // Copies and constants.
  ValueId Contiguous(ValueId v);  // a copy in row-major layout
  // `v` itself when it has these strides (dims of size 1 do not count), else a
  // copy laid out by them; they must be those of a dense tensor.
  ValueId WithStrides(ValueId v, const DimVector& strides);
  ValueId Full(const DimVector& sizes, const Argument& value, DType dtype);
  ValueId Iota(SymExpr length, DType dtype);

  // Products.
  ValueId Mm(ValueId a, ValueId b);
  ValueId Bmm(ValueId a, ValueId b);

 private:
  ValueId Broken() const { return ValueId{0}; }

  Graph& graph_;
  absl::Status status_;
};

// `dims` as the list argument that operators take.
Argument ListArgument(absl::Span<const int64_t> dims);
Argument ListArgument(const DimVector& sizes);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_EMITTER_H_
