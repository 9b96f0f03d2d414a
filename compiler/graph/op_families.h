#ifndef KILN_COMPILER_GRAPH_OP_FAMILIES_H_
#define KILN_COMPILER_GRAPH_OP_FAMILIES_H_

// The families of the operator table, each in the file of its name.

#include "absl/types/span.h"
#include "compiler/graph/op_table.h"

namespace kiln {

absl::Span<const OpRow> UnaryOps();
absl::Span<const OpRow> BinaryOps();
absl::Span<const OpRow> TernaryOps();
absl::Span<const OpRow> ActivationOps();
absl::Span<const OpRow> FactoryOps();
absl::Span<const OpRow> CopyOps();
absl::Span<const OpRow> ViewOps();
absl::Span<const OpRow> ViewCopyOps();
absl::Span<const OpRow> ReductionOps();
absl::Span<const OpRow> MatmulOps();
absl::Span<const OpRow> ConvolutionOps();
absl::Span<const OpRow> NormOps();
absl::Span<const OpRow> LossOps();
absl::Span<const OpRow> IndexOps();
absl::Span<const OpRow> EmbeddingOps();
absl::Span<const OpRow> OrderOps();
absl::Span<const OpRow> ShapeOps();
absl::Span<const OpRow> RearrangeOps();
absl::Span<const OpRow> PoolingOps();
absl::Span<const OpRow> AttentionOps();
absl::Span<const OpRow> ForeachOps();
absl::Span<const OpRow> AssertionOps();

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_OP_FAMILIES_H_
