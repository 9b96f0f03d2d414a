#ifndef KILN_COMPILER_SCHEDULE_ALIGN_REMEDIES_H_
#define KILN_COMPILER_SCHEDULE_ALIGN_REMEDIES_H_

// Ways to align a product for tensor cores (align_contractions.h), and their costs.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/config/target.h"
#include "compiler/loop/contraction.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/align_contractions.h"

namespace kiln {

// The changes that align one product.
struct AlignRemedy {
  // For each operand: the new stride of its buffer's rows, in elements.
  std::array<std::optional<int64_t>, 3> stride;
  // For each operand: whether it is copied.
  std::array<bool, 3> copied = {};
  // For each axis: the point at which the peeled part begins.
  std::vector<std::optional<int64_t>> peeled;
  // For each axis: the padded size, in whole vectors, that the copies of all operands
  // with that axis get. 0: not padded.
  std::vector<int64_t> widened;
  // If set, replaces all of the changes above: several products, one for each alignment
  // that rows have (interleave_rows.h). They read the factors in `turned` from copies with
  // rows along the sum.
  bool interleaves = false;
  std::array<bool, 3> turned = {};
  double costs = 0;  // ns in addition to the aligned product
};

// The remedy with the lowest estimated cost, with symbols at their hints. None if the
// product is aligned, if no remedy saves enough, or if align_contractions.h does not
// change such products. Pure, like all functions here.
std::optional<AlignRemedy> RemedyOf(const Contraction& contraction,
                                    const LoopProgram& program,
                                    const Target& target,
                                    const AlignOptions& options);

// All remedies, whatever they cost; some may be equal. Empty if there is nothing to
// align, or if align_contractions.h does not change such products.
std::vector<AlignRemedy> RemediesOf(const Contraction& contraction,
                                    const LoopProgram& program,
                                    const Target& target,
                                    const AlignOptions& options);

// The axis along which the operand is contiguous; none if there is no such axis.
std::optional<uint32_t> RowAxis(const ContractionOperand& operand);

// Gives the operand's view a new, dense layout with aligned rows along the axis `row`.
void LayOutRows(ContractionOperand& operand, uint32_t row);

// Appends to `extents` an axis for each dimension of the view whose size is not 1.
// Returns the index of the view's elements over these axes.
DimVector AxesOver(const View& view, DimVector& extents);

// The index in its buffer of the view's elements, over the axes of AxesOver. None if
// that is not an index of the buffer.
std::optional<DimVector> PlaceOf(const View& view, const LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_ALIGN_REMEDIES_H_
