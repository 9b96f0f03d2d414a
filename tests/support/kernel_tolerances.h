#ifndef KILN_TESTS_SUPPORT_KERNEL_TOLERANCES_H_
#define KILN_TESTS_SUPPORT_KERNEL_TOLERANCES_H_

// How far a kernel's results may be from the interpreter's, relative to 1 and to
// the value, and why. The inputs of a NestCase are floats in [-4, 4].

namespace kiln {

// One float operation after another, each within half a unit: 2^-22.
inline constexpr double kFewRoundings = 2.4e-7;
// Sums of a thousand floats, in any order.
inline constexpr double kSums = 2e-4;
// bf16 results: half a unit of their last place, 2^-8.
inline constexpr double kBF16Rounding = 4e-3;
// A whole unit, where a float near the middle of two bf16 numbers may be rounded to
// either.
inline constexpr double kBF16Unit = 8e-3;

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_KERNEL_TOLERANCES_H_
