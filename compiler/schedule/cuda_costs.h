#ifndef KILN_COMPILER_SCHEDULE_CUDA_COSTS_H_
#define KILN_COMPILER_SCHEDULE_CUDA_COSTS_H_

// What steps of a CUDA kernel cost: of the H200, fitted to what ./kiln bench
// gpu_kernels measures; other chips are alike in them.

#include <cmath>
#include <cstdint>

namespace kiln {

inline constexpr double kSector = 32;      // bytes
inline constexpr double kLoadNs = 750;     // a load that misses L2, under load
inline constexpr double kJoinWarpNs = 60;  // a shuffle tree
inline constexpr double kJoinBlockNs = 180;   // two barriers and a second tree
inline constexpr double kJoinPartsNs = 2200;  // fence, counter, partial results
inline constexpr double kSectorsPerCycle =
    2.5;  // that a multiprocessor moves from L2
inline constexpr double kL2Bytes = 24e6;  // that may be relied on
inline constexpr int kLanesPerCycle = 128;  // of a multiprocessor
inline constexpr int kBaseRegisters = 20;

inline double CeilDivide(double a, double b) { return std::ceil(a / b); }

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CUDA_COSTS_H_
