#ifndef KILN_COMPILER_SCHEDULE_INTERLEAVE_ROWS_H_
#define KILN_COMPILER_SCHEDULE_INTERLEAVE_ROWS_H_

#include <optional>
#include <vector>

#include "compiler/loop/contraction.h"

namespace kiln {

// A product that writes dense rows of an odd length, as several products that write
// aligned rows. Rows of L elements have different alignments. But of half types every
// eighth row has the same one, since 8 * L elements are whole vectors. So one product
// computes every eighth row, for each of the eight alignments, and of these rows the
// columns that are whole vectors. The result is written in its place and not copied.
//
//   aligned  one product for each alignment, all with the same number of columns
//   edges    the first and the last columns of all rows, in whole vectors, which some
//            of the aligned products leave out; elements that two products write
//            differ only by rounding
struct InterleavedProduct {
  std::vector<Contraction> aligned;
  std::vector<Contraction> edges;
};

// None if the result has another layout, a batch or an unknown size, or if the body
// reads more than the factors.
std::optional<InterleavedProduct> InterleaveRows(const Contraction& product);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_INTERLEAVE_ROWS_H_
