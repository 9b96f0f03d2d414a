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

// The changes to one product.
struct AlignRemedy {
  std::array<std::optional<int64_t>, 3> stride;  // of the operand's buffer
  std::array<bool, 3> copied = {};
  // By axis: where the part that is peeled begins.
  std::vector<std::optional<int64_t>> peeled;
  // By axis: the size, of whole vectors, that it gets in the copies of all operands
  // that have it; 0: its own.
  std::vector<int64_t> widened;
  // Instead of all of these: several products, each of rows with one alignment
  // (interleave_rows.h), that read these factors from copies with rows along the sum.
  bool interleaves = false;
  std::array<bool, 3> turned = {};
  double costs = 0;  // ns, beside the product itself
};

// The cheapest remedy, by estimates at the hints. None if the product is aligned, if no
// remedy saves enough, or if align_contractions.h does not change such products.
std::optional<AlignRemedy> RemedyOf(const Contraction& contraction,
                                    const LoopProgram& program,
                                    const Target& target,
                                    const AlignOptions& options);

// All remedies, whatever they cost; some may be equal. None where there is nothing to
// align, or where align_contractions.h does not change such products.
std::vector<AlignRemedy> RemediesOf(const Contraction& contraction,
                                    const LoopProgram& program,
                                    const Target& target,
                                    const AlignOptions& options);

// The axis that neighbours of the view lie along; none where there are none.
std::optional<uint32_t> RowAxis(const ContractionOperand& operand);

bool HasAlignedRows(const View& view, const Buffer& buffer);

// Lays the operand's view out anew: dense, its rows along the axis `row` and aligned.
void LayOutRows(ContractionOperand& operand, uint32_t row);

// The axes of a nest over the view: one for each dimension of more than a point.
DimVector AxesOver(const View& view, DimVector& extents);

// The offset of each point of the view in its buffer, over those axes.
std::optional<DimVector> PlaceOf(const View& view, const LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_ALIGN_REMEDIES_H_
