#ifndef KILN_COMPILER_SCHEDULE_INTERLEAVE_ROWS_H_
#define KILN_COMPILER_SCHEDULE_INTERLEAVE_ROWS_H_

#include <optional>
#include <vector>

#include "compiler/loop/contraction.h"

namespace kiln {

// A product into dense rows of an odd length, as products into aligned ones. Rows of
// L elements begin at different places of a vector; but each eighth of half types
// begins at the same, and 8 * L elements from row to row are whole vectors. So the
// rows are dealt out to as many products, each with the columns that are whole
// vectors of its rows: the result is written where it belongs, and never copied.
//
//   aligned  one for each kind of row; all have as many columns
//   edges    the first columns and the last of all rows, whole vectors of them, which
//            not every one of those has; what both have is equal but for rounding
struct InterleavedProduct {
  std::vector<Contraction> aligned;
  std::vector<Contraction> edges;
};

// None for a product whose result lies otherwise, is batched or has other sizes than
// known ones, or whose body reads more than the factors.
std::optional<InterleavedProduct> InterleaveRows(const Contraction& product);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_INTERLEAVE_ROWS_H_
