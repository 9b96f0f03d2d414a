#ifndef KILN_COMPILER_SCHEDULE_ALIGN_REMEDIES_H_
#define KILN_COMPILER_SCHEDULE_ALIGN_REMEDIES_H_

// What a product needs so that tensor cores are fed fastest (align_contractions.h), and
// what that costs.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/config/target.h"
#include "compiler/loop/contraction.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/align_contractions.h"
#include "compiler/schedule/interleave_rows.h"

namespace kiln {

// What one product needs.
struct AlignRemedy {
  std::array<std::optional<int64_t>, 3> stride;  // of the operand's buffer
  std::array<bool, 3> copied = {};
  // By axis: where the part that is peeled begins.
  std::vector<std::optional<int64_t>> peeled;
  // By axis: the size, of whole vectors, that it gets in the copies of all operands
  // that have it; 0: its own.
  std::vector<int64_t> widened;
  // Instead of all of these.
  std::optional<InterleavedProduct> interleaved;
  double costs = 0;  // ns, beside the product itself
};

// The cheapest remedy, by estimates at the hints. None where the product is aligned,
// better as it is, or of those that stay as they are (align_contractions.h).
std::optional<AlignRemedy> RemedyOf(const Contraction& contraction,
                                    const LoopProgram& program,
                                    const Target& target,
                                    const AlignOptions& options);

// The axis that neighbours of the view lie along; none where there are none.
std::optional<uint32_t> RowAxis(const ContractionOperand& operand);

bool HasAlignedRows(const View& view, const Buffer& buffer);

// The axes of a nest over the view: one for each dimension of more than a point.
DimVector AxesOver(const View& view, DimVector& extents);

// Where in its buffer each point of the view lies, over those axes.
std::optional<DimVector> PlaceOf(const View& view, const LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_ALIGN_REMEDIES_H_
