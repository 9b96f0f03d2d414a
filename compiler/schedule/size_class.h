#ifndef KILN_COMPILER_SCHEDULE_SIZE_CLASS_H_
#define KILN_COMPILER_SCHEDULE_SIZE_CLASS_H_

// How tuning keys represent sizes, and the length of their digests.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

inline constexpr size_t kDigestDigits = 12;  // hexadecimal

// The exponent of the next power of two.
inline int SizeClass(int64_t n) {
  int exponent = 0;
  while (exponent < 62 && (int64_t{1} << exponent) < n) ++exponent;
  return exponent;
}

// "768", or "2^10": the size class of a symbol's hint.
inline std::string SizeText(const SymExpr& size, const ShapeEnv& shapes) {
  if (size.is_constant()) return absl::StrCat(size.constant());
  return absl::StrCat("2^", SizeClass(shapes.Hint(size)));
}

// The largest power of two that divides `size`, 16 at most. Vectors are as wide as
// that: what a size is a multiple of beyond it decides nothing.
inline int64_t WidestDivisor(const SymExpr& size) {
  int64_t divisor = 16;
  while (divisor > 1 && !IsMultiple(size, divisor)) divisor /= 2;
  return divisor;
}

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_SIZE_CLASS_H_
