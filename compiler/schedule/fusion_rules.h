#ifndef KILN_COMPILER_SCHEDULE_FUSION_RULES_H_
#define KILN_COMPILER_SCHEDULE_FUSION_RULES_H_

#include <cstdint>
#include <string>

#include "compiler/config/target.h"
#include "compiler/schedule/align_axes.h"
#include "compiler/schedule/fusion_unit.h"

namespace kiln {

// Why two nests do not share a kernel.
enum class ApartBecause : uint8_t {
  kNothing,  // fuse
  kScan,     // a running sum keeps its loop to itself
  kTooLarge,
  kIterationDiffers,
  kReadsElsewhere,  // what one writes, the other reads at another place
  kWritesTwice,     // both write one buffer
  kAtomicIntoReduction,
  kSavesTooLittle,  // one kernel is not cheaper than the two (nest_price.h)
  kHoldsMemory,     // large temporaries would be there at once (fuser.h)
  kCycle,           // a third kernel must run between the two
};

absl::string_view ApartName(ApartBecause because);

// The answer to "may these two share a kernel?", with the reason.
struct FusionVerdict {
  ApartBecause because = ApartBecause::kNothing;
  std::string detail;   // the numbers behind the reason
  Alignment alignment;  // when they fuse

  bool fuse() const { return because == ApartBecause::kNothing; }
};

struct FusionLimits {
  int nests = 64;
  size_t body = 1500;     // nodes
  size_t accesses = 120;  // loads and stores
  // How many more a nest that reads the first one's result may add.
  size_t accesses_of_reader = 4;
};

// If one depends on the other, `first` runs before `second`. The caller checks that no
// other kernel has to run between them (dependencies.h).
FusionVerdict JudgeFusion(const FusionUnit& first, const FusionUnit& second,
                          const std::vector<Buffer>& buffers,
                          const ShapeEnv& shapes, const Target& target,
                          const FusionLimits& limits);

// Both nests as one. Loads of what `first` stores are replaced by the stored values.
LoopNest MergeNests(const FusionUnit& first, const FusionUnit& second,
                    const Alignment& alignment,
                    const std::vector<Buffer>& buffers, const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FUSION_RULES_H_
