#ifndef KILN_TESTS_SUPPORT_NEST_BATCH_H_
#define KILN_TESTS_SUPPORT_NEST_BATCH_H_

// Checks many kernels together: a compiler reads the prelude once for all the
// kernels of a unit.

#include <string>
#include <vector>

#include "compiler/config/target.h"
#include "tests/support/nest_case.h"

namespace kiln {

// A case whose kernel has its variant.
struct MappedNest {
  NestCase nest;
  std::string what;  // stands in front of what is wrong
  double tolerance = 0;
};

// Writes the kernels for `target`, builds them on `threads` threads, runs them and
// compares them with the interpreter. CUDA: NVRTC must accept them; those for
// sm_90 run, by the emulator where there is no GPU. Skips the test where NVRTC is
// missing.
void CheckTogether(const std::vector<MappedNest>& nests, const Target& target,
                   int threads = 1);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_NEST_BATCH_H_
