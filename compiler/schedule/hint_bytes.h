#ifndef KILN_COMPILER_SCHEDULE_HINT_BYTES_H_
#define KILN_COMPILER_SCHEDULE_HINT_BYTES_H_

#include <cstdint>

#include "compiler/sym/shape_env.h"
#include "compiler/sym/sym_expr.h"
#include "proto/base/dtype.h"

namespace kiln {

// Bytes of the elements of a Buffer or View, with symbols at their hints.
template <typename Sized>
int64_t HintBytes(const Sized& sized, const ShapeEnv& shapes) {
  return shapes.Hint(Product(sized.sizes)) * SizeInBytes(sized.dtype);
}

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_HINT_BYTES_H_
