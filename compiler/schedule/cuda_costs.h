#ifndef KILN_COMPILER_SCHEDULE_CUDA_COSTS_H_
#define KILN_COMPILER_SCHEDULE_CUDA_COSTS_H_

// Costs of the steps of a CUDA kernel on the H200. They are fitted to the times of 4,700
// configurations of 361 kernels, measured by `./kiln bench kernel_prices`. Other chips
// are assumed to be alike.

#include <cmath>
#include <cstdint>

namespace kiln {

inline constexpr double kSector = 32;      // bytes
inline constexpr double kLoadNs = 620;     // a load that misses L2, under load
inline constexpr double kJoinWarpNs = 38;  // a shuffle tree
inline constexpr double kJoinBlockNs = 190;   // two barriers and a second tree
inline constexpr double kJoinPartsNs = 3400;  // fence, counter, partial results
// Additions to one cell of memory, each, and what one anywhere takes, in sectors:
// estimated, not measured. What a sector of neighbours takes, in sectors that are
// read, and how much more for each time that a lane comes back to it.
inline constexpr double kAtomicNs = 1.2;
inline constexpr double kAtomicSectors = 3;
inline constexpr double kAddedSectors = 13;
inline constexpr double kSplitAddition = 0.4;
inline constexpr double kSectorsPerCycle =
    2.5;  // that a multiprocessor moves from L2
// How much all blocks may read in between for L2 to serve a second read for
// sure, and how much for it to serve none.
inline constexpr double kL2Bytes = 20e6;
inline constexpr double kL2NoBytes = 60e6;
// The share of the lesser costs that is not overlapped when the loads of columns are
// issued one step at a time. Measured on GELU's backward with its bias sums: 125 us
// against 87.
inline constexpr double kStepApart = 0.3;
// Time that a thread of columns takes for the loads of a step, and for an instruction.
inline constexpr double kColumnLoadNs = 340;
inline constexpr double kColumnNs = 0.46;
inline constexpr int kLanesPerCycle = 128;  // of a multiprocessor
inline constexpr int kBaseRegisters = 20;

inline double CeilDivide(double a, double b) { return std::ceil(a / b); }

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CUDA_COSTS_H_
