#ifndef KILN_COMPILER_GRAPH_TYPE_PROMOTION_H_
#define KILN_COMPILER_GRAPH_TYPE_PROMOTION_H_

// PyTorch's type promotion. Categories are bool < integer < float; a tensor of
// rank 0 counts only where its category is above that of the tensors with
// dimensions, and a number only where its category is above both.

#include <optional>

#include "absl/functional/function_ref.h"
#include "compiler/graph/argument.h"
#include "compiler/graph/op_def.h"
#include "compiler/graph/tensor_meta.h"
#include "proto/base/dtype.h"

namespace kiln {

// The smallest dtype that both fit in, by PyTorch's table: u8 and i8 give i16,
// f16 and bf16 give f32.
DType PromoteTypes(DType a, DType b);

// The common dtype of an operator's operands, gathered one by one.
class TypePromotion {
 public:
  void AddTensor(const TensorMeta& meta);
  // An integer counts as i64, a float as f32, PyTorch's default dtype.
  void AddNumber(const Argument& number);
  // A tensor, a number, or nothing when it is absent.
  void Add(const Argument& arg,
           absl::FunctionRef<const TensorMeta&(const Argument&)> meta_of);

  // kBool when nothing was added.
  DType Result() const;
  // For operators that give floats: integers and bools become f32.
  DType FloatResult() const;

 private:
  std::optional<DType> with_dims_;
  std::optional<DType> rank_zero_;
  std::optional<DType> numbers_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_TYPE_PROMOTION_H_
