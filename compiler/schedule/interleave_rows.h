#ifndef KILN_COMPILER_SCHEDULE_INTERLEAVE_ROWS_H_
#define KILN_COMPILER_SCHEDULE_INTERLEAVE_ROWS_H_

#include <optional>
#include <vector>

#include "compiler/loop/contraction.h"

namespace kiln {

// Splits a product whose result has dense rows of an odd length into several products
// that write aligned rows. If a row has L elements, rows begin at different alignments.
// With half types every eighth row has the same alignment, since 8 * L elements are
// whole vectors of 16 bytes. So there are eight products, one for each alignment. Each
// computes every eighth row, and of these rows the columns that are whole vectors. The
// result is written in place, without a copy.
//
//   aligned  One product for each alignment, all with the same number of columns.
//   edges    Products for the first and for the last columns of all rows, in whole
//            vectors: some of the aligned products leave these out. Elements that two
//            products write differ only by rounding.
struct InterleavedProduct {
  std::vector<Contraction> aligned;
  std::vector<Contraction> edges;
};

// None if the result has no odd rows, another layout, a batch or an unknown size, if it
// is too small, or if the body reads more than the factors. Pure.
std::optional<InterleavedProduct> InterleaveRows(const Contraction& product);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_INTERLEAVE_ROWS_H_
