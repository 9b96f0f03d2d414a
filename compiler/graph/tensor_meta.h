#ifndef KILN_COMPILER_GRAPH_TENSOR_META_H_
#define KILN_COMPILER_GRAPH_TENSOR_META_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "compiler/sym/sym_expr.h"
#include "proto/base/dtype.h"

namespace kiln {

// Dtype and layout of a value. Strides and offset in elements. A result that
// an operator leaves out (a gradient nobody asked for) has defined == false.
struct TensorMeta {
  DType dtype = DType::kFloat32;
  DimVector sizes;
  DimVector strides;
  SymExpr offset = 0;
  bool defined = true;

  int rank() const { return static_cast<int>(sizes.size()); }
  SymExpr numel() const { return Product(sizes); }

  friend bool operator==(const TensorMeta& a, const TensorMeta& b) {
    return a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides &&
           a.offset == b.offset && a.defined == b.defined;
  }
};

// Row-major strides for `sizes`. A size of 0 counts as 1, as in PyTorch.
DimVector ContiguousStrides(const DimVector& sizes);

// Strides of NHWC (rank 4) and NDHWC (rank 5) for `sizes` in NCHW order.
DimVector ChannelsLastStrides(const DimVector& sizes);

// A contiguous tensor.
TensorMeta ContiguousMeta(DType dtype, DimVector sizes);

// "f32[4, s0]", with strides and offset where they are not those of a
// contiguous tensor: "f32[4, 8] strides [1, 4] offset 2"; "none" when not
// defined.
std::string ToText(const TensorMeta& meta);
std::string ToText(const TensorMeta& meta,
                   absl::FunctionRef<std::string(Var)> name_of);
// "[4, s0]".
std::string ToText(const DimVector& dims);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_TENSOR_META_H_
