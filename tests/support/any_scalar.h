#ifndef KILN_TESTS_SUPPORT_ANY_SCALAR_H_
#define KILN_TESTS_SUPPORT_ANY_SCALAR_H_

#include <cstdint>

#include "proto/base/dtype.h"

namespace kiln {

// A value of any dtype: floats in `f`, the others in `i`.
struct AnyScalar {
  double f = 0;
  int64_t i = 0;
};

// Into the range of the type, as C's conversions wrap.
AnyScalar Normal(DType dtype, AnyScalar v);

AnyScalar ReadElement(DType dtype, const void* memory, int64_t element);
void WriteElement(DType dtype, void* memory, int64_t element, AnyScalar value);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_ANY_SCALAR_H_
