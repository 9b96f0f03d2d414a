#ifndef KILN_TESTS_SUPPORT_CUDA_EMULATOR_GRID_H_
#define KILN_TESTS_SUPPORT_CUDA_EMULATOR_GRID_H_

#include <cstddef>
#include <string>

#include "tests/support/cuda_emulator/kernel_abi.h"

namespace kiln_emulator {

// A kernel of a loaded module.
struct Kernel {
  void (*call)(void** parameters) = nullptr;
  void (*enter)(const Host*, Place*) = nullptr;
  unsigned cluster = 1;  // blocks
};

// Runs all blocks of a grid. A block's threads are fibers of one host thread, and
// take turns at barriers, forwards and backwards; the blocks of a cluster are
// host threads of their own. Blocks of other clusters run one after the other.
// Returns what is wrong: an assertion of the kernel, or threads that wait for one
// another for ever; empty when all is well. One launch at a time.
std::string RunGrid(const Kernel& kernel, Dim grid, Dim block,
                    size_t dynamic_shared_bytes, void** parameters);

}  // namespace kiln_emulator

#endif  // KILN_TESTS_SUPPORT_CUDA_EMULATOR_GRID_H_
