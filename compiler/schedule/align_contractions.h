#ifndef KILN_COMPILER_SCHEDULE_ALIGN_CONTRACTIONS_H_
#define KILN_COMPILER_SCHEDULE_ALIGN_CONTRACTIONS_H_

#include <cstdint>

#include "compiler/config/target.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// Gives the products of `program` what tensor cores are fed fastest with: rows that
// begin on 16 bytes, and sizes along rows that are whole vectors. A product with
// 50,257 columns of bf16 takes seven times as long as one with 50,256.
//
//   rows   of a temporary get a longer stride; what has its place already, an
//          input or a result, is copied to or from such a temporary
//   result  of which every row is odd is written by several products, each into the
//          rows that begin at one place of a vector (interleave_rows.h), where that
//          costs less than a copy
//   sizes  are peeled: the product of whole vectors is one, and what is left of
//          rows, columns or the sum another, small one; or, where all operands that
//          have an axis are copied, or copying them costs less, the copies are of
//          whole vectors, and zeros stand behind a sum's terms
//
// Only where all of that is cheaper than the product as it is, by a tenth, at the
// hints. Of bf16, f16, and f32 that may be rounded to TF32, on CUDA. Rows are of
// known length; how many there are may be a symbol.
//
// Linear in the program for each of them.
struct AlignOptions {
  bool longer_rows = true;  // false: rows that are not aligned are copied
  bool copies = true;       // false: nothing is copied or peeled
  bool widens = true;       // false: sizes are peeled, and no copy is wider
};
struct AlignedCounts {
  int64_t products = 0;  // that it changed
  int64_t rows = 0;      // buffers whose rows got a longer stride
};
AlignedCounts AlignContractions(LoopProgram& program, const Target& target,
                                const AlignOptions& options = {});

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_ALIGN_CONTRACTIONS_H_
