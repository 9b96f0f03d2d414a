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

// Aligns the operands of `program`'s products for tensor cores, which are fastest when
// rows begin at multiples of 16 bytes and sizes along rows are whole vectors. A product
// with 50,257 columns of bf16 takes seven times as long as one with 50,256.
//
//   rows    Rows of a temporary get a longer stride. An input or a result, whose layout
//           is fixed, is copied to or from such a temporary.
//   result  If rows of the result have an odd length, several products can write it,
//           each the rows with one alignment (interleave_rows.h), from factors with
//           rows along the sum. Done if that costs less than copies.
//   sizes   Sizes are peeled: one product takes the whole vectors, a small second one
//           the rest of the rows, columns or sum. If all operands that have the axis
//           are copied, or copying them costs less, the copies are made of whole
//           vectors instead, and a sum's terms are padded with zeros.
//
// A product is changed only if that saves a tenth of its price, at the hints, or as
// a decision of `tuning` says (align_ways.h). For bf16, f16, and f32 that may be rounded
// to TF32, on CUDA. Rows have a known length; their number may be a symbol. Keys that
// are looked up go into the program's `tuned`.
//
// Linear in the program for each product.
struct AlignOptions {
  bool longer_rows = true;  // false: rows that are not aligned are copied
  bool copies = true;       // false: nothing is copied or peeled
  bool widens = true;       // false: sizes are peeled, and no copy is wider
};
// What forced padding leaves as it is must not be peeled.
AlignOptions AlignOptionsOf(const ArtifactOptions& options);

struct AlignedCounts {
  int64_t products = 0;  // that it changed
  int64_t rows = 0;      // buffers whose rows got a longer stride
};
AlignedCounts AlignContractions(LoopProgram& program, const Target& target,
                                const AlignOptions& options = {},
                                const TuningTable& tuning = {});

// The product whose decisions have `key`, alone, aligned in each of its ways; what is
// chosen without a decision first. Empty if there is none. `program` and the other
// arguments are those that AlignContractions takes.
std::vector<StepAlone> AlignedWays(LoopProgram program, const Target& target,
                                   const AlignOptions& options,
                                   const TuningTable& tuning,
                                   absl::string_view key);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_ALIGN_CONTRACTIONS_H_
