#ifndef KILN_COMPILER_SCHEDULE_FUSION_RULES_H_
#define KILN_COMPILER_SCHEDULE_FUSION_RULES_H_

#include <cstdint>
#include <string>

#include "compiler/schedule/align_axes.h"
#include "compiler/schedule/fusion_unit.h"

namespace kiln {

// Why two nests do not share a kernel.
enum class ApartBecause : uint8_t {
  kNothing,           // they do
  kScan,              // one of them scans; scans are kernels of their own
  kTooLarge,          // FusionLimits
  kIterationDiffers,  // they have no common iteration space (align_axes.h)
  kReadsElsewhere,    // one reads what the other writes, but at another index
  kWritesTwice,       // both write the same buffer
  kAtomicIntoReduction,  // one adds atomically, the other reduces
  kSavesTooLittle,  // one kernel is not cheaper than the two (nest_price.h)
  kHoldsMemory,     // large temporaries would be in memory at once (fuser.h)
  kCycle,           // a third kernel must run between the two
};

absl::string_view ApartName(ApartBecause because);

// Whether two nests may share a kernel, with the reason.
struct FusionVerdict {
  ApartBecause because = ApartBecause::kNothing;
  std::string detail;   // the numbers behind the reason
  Alignment alignment;  // if they may

  bool fuse() const { return because == ApartBecause::kNothing; }
};

struct FusionLimits {
  int nests = 64;
  size_t body = 1500;     // nodes
  size_t accesses = 120;  // loads and stores
  // Beyond `accesses`, a nest that reads the first one's result may still join if it has
  // at most this many.
  size_t accesses_of_reader = 4;
};

// Judges whether `first` and `second` may share a kernel. If one depends on the other, it
// must be `second`. The caller checks that no other kernel has to run between them
// (dependencies.h), and whether fusing them pays. Pure.
FusionVerdict JudgeFusion(const FusionUnit& first, const FusionUnit& second,
                          const std::vector<Buffer>& buffers,
                          const ShapeEnv& shapes, const FusionLimits& limits);

// Merges both nests into one. Loads of what `first` stores are replaced by the stored
// values. Pure.
LoopNest MergeNests(const FusionUnit& first, const FusionUnit& second,
                    const Alignment& alignment, const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FUSION_RULES_H_
