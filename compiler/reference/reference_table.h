#ifndef KILN_COMPILER_REFERENCE_REFERENCE_TABLE_H_
#define KILN_COMPILER_REFERENCE_REFERENCE_TABLE_H_

// Who computes each operator. A family stands in a file of its own and lists
// its rows; here they are joined under the rows of the operator table.

#include "absl/types/span.h"
#include "compiler/reference/ref_call.h"

namespace kiln {

// The function of `op`; null when none has been written. An in-place operator
// has none: RunReference runs its functional form and writes the result back.
ReferenceFn FindReference(const OpDef& op);

// The families.
absl::Span<const ReferenceRow> UnaryReferences();
absl::Span<const ReferenceRow> BinaryReferences();
absl::Span<const ReferenceRow> SelectReferences();
absl::Span<const ReferenceRow> ActivationReferences();
absl::Span<const ReferenceRow> ReductionReferences();
absl::Span<const ReferenceRow> OrderReferences();
absl::Span<const ReferenceRow> ViewReferences();
absl::Span<const ReferenceRow> FactoryReferences();
absl::Span<const ReferenceRow> MovementReferences();
absl::Span<const ReferenceRow> RearrangeReferences();
absl::Span<const ReferenceRow> IndexingReferences();
absl::Span<const ReferenceRow> MatmulReferences();
absl::Span<const ReferenceRow> ConvolutionReferences();
absl::Span<const ReferenceRow> PoolingReferences();
absl::Span<const ReferenceRow> NormReferences();
absl::Span<const ReferenceRow> SoftmaxReferences();
absl::Span<const ReferenceRow> LossReferences();
absl::Span<const ReferenceRow> EmbeddingReferences();
absl::Span<const ReferenceRow> AttentionReferences();
absl::Span<const ReferenceRow> ForeachReferences();
absl::Span<const ReferenceRow> AssertionReferences();

}  // namespace kiln

#endif  // KILN_COMPILER_REFERENCE_REFERENCE_TABLE_H_
