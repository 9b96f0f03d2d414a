#ifndef KILN_COMPILER_LOOP_SCATTER_UPDATES_H_
#define KILN_COMPILER_LOOP_SCATTER_UPDATES_H_

// Updates of a tensor's elements at loaded positions, for scatters, index_put and
// similar operators.
//
// Several updates may go to one element; on CUDA the hardware decides their order. With
// the option `deterministic` these functions write forms whose result does not depend
// on the order: maxima of integers, and sums of integers.

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/loop/exact_sums.h"
#include "compiler/loop/lowering.h"
#include "compiler/loop/update.h"

namespace kiln {

// The sum of each element's updates, in temporaries; 0 for an element without any. Half
// types are added as float32, small integers as int32.
struct UpdateSums {
  std::optional<ExactSums> exact;
  BufferId cells = 0;  // without `exact`
};
absl::StatusOr<UpdateSums> SumUpdates(NodeLowering& n, WriteUpdate write);
// The sum at index `at` of the result, as float64 or in the type of the sums.
ScalarId ReadSum(NestWriter& nest, const UpdateSums& sums, const DimVector& at);

// Whether updates set different numbers. If all set the same one, their order does not
// matter.
enum class SetNumbers { kAny, kOne };

// Writes result 0: `self` (zeros if absent) with the updated elements set.
absl::Status SetElements(NodeLowering& n, std::optional<ValueId> self,
                         WriteUpdate write,
                         SetNumbers numbers = SetNumbers::kAny);

// Writes result 0: `self` (zeros if absent) plus the updates. Errors: UNSUPPORTED_OP for
// sums of booleans.
absl::Status AddToElements(NodeLowering& n, std::optional<ValueId> self,
                           WriteUpdate write);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_SCATTER_UPDATES_H_
