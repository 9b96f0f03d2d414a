#ifndef KILN_COMPILER_SCHEDULE_ALIGN_CONTRACTIONS_H_
#define KILN_COMPILER_SCHEDULE_ALIGN_CONTRACTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/config/compile_options.h"
#include "compiler/config/target.h"
#include "compiler/config/tuning_table.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/step_alone.h"

namespace kiln {

// Aligns the operands of `program`'s matrix products for tensor cores. Those are fastest
// when each row begins at a multiple of 16 bytes and consists of whole 16-byte vectors.
// A product with 50,257 columns of bf16 takes seven times as long as one with 50,256
// (H200; the times are in align_remedies.cc).
//
//   rows    Rows of a temporary get a longer stride. An input or a result has a fixed
//           layout, so it is copied to or from such a temporary.
//   result  If the rows of the result have an odd length, several products can write
//           it: one for each alignment that rows have (interleave_rows.h). They read
//           factors with rows along the sum, copied if necessary. This is done if it
//           costs less than other copies.
//   sizes   An odd size is peeled: one product computes the whole vectors, and a small
//           second one the remaining rows, columns or terms of the sum. If all operands
//           with that axis are copied anyway, or if copying them costs less, the copies
//           are padded to whole vectors instead, with zeros where terms are summed.
//
// A product is changed if that saves a tenth of its estimated time with symbols at their
// hints, or if a decision of `tuning` says so (align_ways.h). Applies on CUDA to bf16,
// f16, and f32 that may be rounded to TF32. The length of the rows must be known; their
// number may be a symbol. Each key that is looked up is added to the program's `tuned`.
//
// Linear in the program for each product.
struct AlignOptions {
  bool longer_rows = true;  // false: unaligned rows are copied
  bool copies = true;       // false: nothing is copied or peeled
  bool widens = true;       // false: odd sizes are peeled, never padded
};
// Turns copies off under force_shape_pad: what that option did not pad must not be
// peeled.
AlignOptions AlignOptionsOf(const ArtifactOptions& options);

struct AlignedCounts {
  int64_t products = 0;  // products that were changed
  int64_t rows = 0;      // buffers whose rows got a longer stride
};
AlignedCounts AlignContractions(LoopProgram& program, const Target& target,
                                const AlignOptions& options = {},
                                const TuningTable& tuning = {});

// Programs of the first product with tuning key `key` alone, aligned in each possible
// way. The one that is chosen without a decision comes first. Empty if no product has
// the key. `program` and the other arguments are those that AlignContractions takes.
std::vector<StepAlone> AlignedWays(LoopProgram program, const Target& target,
                                   const AlignOptions& options,
                                   const TuningTable& tuning,
                                   absl::string_view key);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_ALIGN_CONTRACTIONS_H_
