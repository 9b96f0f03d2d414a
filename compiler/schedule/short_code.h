#ifndef KILN_COMPILER_SCHEDULE_SHORT_CODE_H_
#define KILN_COMPILER_SCHEDULE_SHORT_CODE_H_

// Compares the length of the code of variants. The longer a kernel's code, the longer
// NVRTC takes, so of variants with nearly equal prices a shorter one is taken.

#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// Prices whose ratio is at most this count as equal. Measured on an H100: seven kernels
// whose shorter variant has a price up to 1 % higher took 0.735 to 1.003 times as long
// with it. With prices up to 3 % higher, some took 1.07 times as long.
inline constexpr double kNearTie = 1.01;

// The number of elements for which the code of a thread is written out. Meaningful only
// for comparing variants for which DifferInLengthOnly holds.
int ElementsWritten(const KernelVariant& variant);

// Whether the variants differ only in the number of elements per thread: points in
// `unroll`; rows in `lanes` and the numbers that follow from it. Widths of accesses and
// everything else are equal. False for columns and for rows with kSum stores: their
// variants of nearly equal price took up to 1.6 times as long as each other.
bool DifferInLengthOnly(const KernelVariant& a, const KernelVariant& b);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_SHORT_CODE_H_
