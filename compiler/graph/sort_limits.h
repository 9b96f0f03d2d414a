#ifndef KILN_COMPILER_GRAPH_SORT_LIMITS_H_
#define KILN_COMPILER_GRAPH_SORT_LIMITS_H_

#include <cstdint>

namespace kiln {

// What prims.sort_rows takes on CUDA. A graph pass asks before it emits the
// operator, and emits prims.sort_values for other rows; the schedule asks again
// which kernels can do it.

// Elements of a row that is sorted whole: 16 in the registers of each of 1,024 threads. A
// place in the row has 16 bits.
inline constexpr int64_t kMostSorted = 16384;

// First places that are kept while a row of any length goes by.
inline constexpr int64_t kMostPlaces = 1024;

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_SORT_LIMITS_H_
