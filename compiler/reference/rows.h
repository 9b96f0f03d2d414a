#ifndef KILN_COMPILER_REFERENCE_ROWS_H_
#define KILN_COMPILER_REFERENCE_ROWS_H_

// What reductions, scans and orderings share: an input cut into the groups of
// elements that are combined with each other.

#include <cstdint>
#include <vector>

#include "compiler/reference/ref_call.h"

namespace kiln {

// `dim` in [0, rank): negative dims count from the end; a 0-d tensor has one.
int64_t WrapDim(int64_t dim, int64_t rank);

// For each dimension of a tensor whether it is reduced. An empty list reduces
// all.
std::vector<bool> ReducedDims(const Sizes& dims, int64_t rank);
// The argument `name` of `call` (an int or a list; absent: all).
std::vector<bool> ReducedDims(RefCall& call, absl::string_view name,
                              int64_t rank);

struct Rows {
  Sizes kept;     // the sizes, reduced ones being 1
  Sizes dropped;  // the sizes without the reduced ones
  // For each element of the result the positions, row-major, of its group's
  // members in the input, in row-major order.
  std::vector<std::vector<int64_t>> members;

  // The sizes of the result.
  const Sizes& ResultSizes(bool keepdim) const {
    return keepdim ? kept : dropped;
  }
};

Rows CutIntoRows(const Sizes& sizes, const std::vector<bool>& reduced);

// Groups along one dimension; members in order of it.
Rows CutAlong(const Sizes& sizes, int64_t dim);

}  // namespace kiln

#endif  // KILN_COMPILER_REFERENCE_ROWS_H_
