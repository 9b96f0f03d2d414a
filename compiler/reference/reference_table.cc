#include "compiler/reference/reference_table.h"

#include <vector>

#include "compiler/graph/op_table.h"

namespace kiln {
namespace {

std::vector<ReferenceFn> JoinFamilies() {
  std::vector<ReferenceFn> table(AllOps().size(), nullptr);
  for (absl::Span<const ReferenceRow> family :
       {UnaryReferences(),      BinaryReferences(),    SelectReferences(),
        ActivationReferences(), ReductionReferences(), OrderReferences(),
        ViewReferences(),       FactoryReferences(),   MovementReferences(),
        IndexingReferences(),   MatmulReferences(),    ConvolutionReferences(),
        PoolingReferences(),    NormReferences(),      SoftmaxReferences(),
        LossReferences(),       EmbeddingReferences(), AttentionReferences(),
        ForeachReferences(),    RearrangeReferences(), AssertionReferences()}) {
    for (const ReferenceRow& row : family) {
      // A reference may be here before its operator is in the table.
      const OpDef* op = FindOp(row.name);
      if (op != nullptr) table[op->index] = row.run;
    }
  }
  return table;
}

}  // namespace

ReferenceFn FindReference(const OpDef& op) {
  static const std::vector<ReferenceFn>* const kTable =
      new std::vector<ReferenceFn>(JoinFamilies());
  return (*kTable)[op.index];
}

}  // namespace kiln
