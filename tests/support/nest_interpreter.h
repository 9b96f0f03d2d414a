#ifndef KILN_TESTS_SUPPORT_NEST_INTERPRETER_H_
#define KILN_TESTS_SUPPORT_NEST_INTERPRETER_H_

// Runs one loop nest point by point, slowly and plainly: what generated code is
// compared with. Float arithmetic is in double, rounded to the node's type.

#include <cstdint>
#include <vector>

#include "compiler/loop/loop_nest.h"
#include "tests/support/any_scalar.h"

namespace kiln {

struct NestRun {
  std::vector<void*> memory;     // one a buffer: its element 0
  std::vector<int64_t> symbols;  // values
  uint64_t seed = 0;
};

// Whether every index that was checked lay inside, and every assertion holds.
bool InterpretNest(const LoopNest& nest, const std::vector<Buffer>& buffers,
                   const NestRun& run);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_NEST_INTERPRETER_H_
