#ifndef KILN_COMPILER_SCHEDULE_SHORT_CODE_H_
#define KILN_COMPILER_SCHEDULE_SHORT_CODE_H_

// Which of two variants has the shorter code. NVRTC's time goes with the code of a
// kernel, so a shorter variant is taken where prices are nearly equal.

#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// Prices whose ratio is at most this are taken for equal. Measured on an H100, seven
// kernels whose shorter variant costs up to 1 % more by the price took 0.735 to 1.003
// times as long with it; of prices up to 3 % apart, some took 1.07 times as long.
inline constexpr double kNearTie = 1.01;

// The elements for which the code of a thread is written out. Only compared between
// variants that differ in length only.
int ElementsWritten(const KernelVariant& variant);

// Whether the variants differ only in how many elements a thread has: points in their
// `unroll`; rows in their lanes, and in what follows from these. Widths of accesses and
// all else are equal. False for columns and for rows that add up stretches: of those,
// variants of nearly the same price took up to 1.6 times as long as each other.
bool DifferInLengthOnly(const KernelVariant& a, const KernelVariant& b);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_SHORT_CODE_H_
