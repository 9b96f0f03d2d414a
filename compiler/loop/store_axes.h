#ifndef KILN_COMPILER_LOOP_STORE_AXES_H_
#define KILN_COMPILER_LOOP_STORE_AXES_H_

#include <optional>
#include <vector>

#include "compiler/loop/loop_nest.h"

namespace kiln {

// Inverts a store: returns the values of the axes of `nest` at which `store` writes
// element `index` of `buffer`. `index` may be over axes of another nest. None if the
// store does not write each element exactly once. Pure.
std::optional<std::vector<SymExpr>> AxesAt(const LoopNest& nest,
                                           const Store& store,
                                           const Buffer& buffer,
                                           const DimVector& index);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_STORE_AXES_H_
