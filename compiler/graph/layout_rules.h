#ifndef KILN_COMPILER_GRAPH_LAYOUT_RULES_H_
#define KILN_COMPILER_GRAPH_LAYOUT_RULES_H_

// Which sizes and strides results have: the rules that inference shares.

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/graph/argument.h"
#include "compiler/graph/tensor_meta.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

using MetaPointers = absl::InlinedVector<const TensorMeta*, 4>;

// Row-major without gaps; strides of dimensions of size 1 do not count.
bool IsContiguous(const TensorMeta& meta, const ShapeEnv& shapes);
// Likewise in NHWC (rank 4) or NDHWC (rank 5).
bool IsChannelsLast(const TensorMeta& meta, const ShapeEnv& shapes);
// Some order of the dimensions is row-major without gaps.
bool IsDense(const TensorMeta& meta, ShapeEnv& shapes);
// PyTorch's guess at what layout a tensor is meant to have: channels last when
// strides say so, also where sizes of 1 leave it open.
bool SuggestsChannelsLast(const TensorMeta& meta, ShapeEnv& shapes);

// The sizes that all broadcast to. MALFORMED_GRAPH when two do not.
absl::StatusOr<DimVector> BroadcastSizes(absl::Span<const DimVector* const> all,
                                         ShapeEnv& shapes);

// The strides eager mode gives the result of an elementwise operator: those of
// the operands when they agree, else dense in the order that the operands'
// strides ask for, the first operand first. Source: PyTorch's TensorIterator
// (compute_fast_setup_type, reorder_dimensions).
DimVector ElementwiseStrides(const DimVector& sizes,
                             absl::Span<const TensorMeta* const> operands,
                             ShapeEnv& shapes);

// The same for operands whose strides over the result's dimensions are given, 0
// where an operand is broadcast.
DimVector IterationStrides(const DimVector& sizes,
                           absl::Span<const DimVector> operands,
                           ShapeEnv& shapes);

// Strides of a result like `like` (clone, zeros_like, _to_copy): preserve keeps
// those of a dense tensor, else the order of its dimensions.
DimVector LikeStrides(const TensorMeta& like, MemoryFormat format,
                      ShapeEnv& shapes);

// A result like `like`: its dtype, sizes and, as preserve has it, strides.
TensorMeta MetaLike(const TensorMeta& like, ShapeEnv& shapes);

// A result of `sizes` in channels-last or contiguous layout.
TensorMeta MetaInFormat(DType dtype, DimVector sizes, bool channels_last);

// Strides under which a tensor of `meta` is seen as `sizes` without a copy;
// empty optional when there are none. Source: PyTorch's computeStride.
std::optional<DimVector> ViewStrides(const TensorMeta& meta,
                                     const DimVector& sizes, ShapeEnv& shapes);

// `dim` in [-rank, rank) brought to [0, rank); rank 0 counts as rank 1.
absl::StatusOr<int> WrapDim(int64_t dim, int rank);
// Flags, one a dimension. Empty `dims` means all.
absl::StatusOr<std::vector<bool>> DimMask(const std::vector<int64_t>& dims,
                                          int rank);

// Fills in the one size that is -1, so that the product is that of `from`.
// MALFORMED_GRAPH when there is no such size.
absl::StatusOr<DimVector> InferSize(DimVector sizes, const DimVector& from,
                                    ShapeEnv& shapes);

// Equal sizes, decided and guarded.
bool SameSizes(const DimVector& a, const DimVector& b, ShapeEnv& shapes);

absl::Status Malformed(absl::string_view what);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_LAYOUT_RULES_H_
