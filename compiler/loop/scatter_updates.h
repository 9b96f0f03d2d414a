#ifndef KILN_COMPILER_LOOP_SCATTER_UPDATES_H_
#define KILN_COMPILER_LOOP_SCATTER_UPDATES_H_

// Updates of a tensor's elements at places that are loaded: what scatters,
// index_put and their like are made of.
//
// Many updates may meet at one element, in the hardware's order on CUDA. Under
// the option `deterministic` these functions write forms that give one result in
// any order: the greatest of integers, and sums of integers.

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/loop/exact_sums.h"
#include "compiler/loop/lowering.h"
#include "compiler/loop/update.h"

namespace kiln {

// What the updates of each element come to, in temporaries; 0 where there are
// none. Half types are added as float32, small integers as int32.
struct UpdateSums {
  std::optional<ExactSums> exact;
  BufferId cells = 0;  // without `exact`
};
absl::StatusOr<UpdateSums> SumUpdates(NodeLowering& n, WriteUpdate write);
// The sum at `at` of the result: float64, or of the type that sums are kept in.
ScalarId ReadSum(NestWriter& nest, const UpdateSums& sums, const DimVector& at);

// Whether updates set different numbers, or all the same one: then their order
// changes nothing.
enum class SetNumbers { kAny, kOne };

// result 0 = `self` (nothing: zeros), whose updated elements are set.
absl::Status SetElements(NodeLowering& n, std::optional<ValueId> self,
                         WriteUpdate write,
                         SetNumbers numbers = SetNumbers::kAny);

// result 0 = `self` (nothing: zeros) plus the updates. UNSUPPORTED_OP for sums of
// booleans.
absl::Status AddToElements(NodeLowering& n, std::optional<ValueId> self,
                           WriteUpdate write);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_SCATTER_UPDATES_H_
