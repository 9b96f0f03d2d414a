#ifndef KILN_COMPILER_SCHEDULE_ALIGN_WAYS_H_
#define KILN_COMPILER_SCHEDULE_ALIGN_WAYS_H_

// The alternative ways to align a product (align_contractions.h). A measurement compares
// them and a tuning decision names one, as with ConfigSpace for kernels of nests.

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/config/tuning_table.h"
#include "compiler/loop/contraction.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/align_contractions.h"
#include "compiler/schedule/align_remedies.h"

namespace kiln {

// A tuning decision is one of these names:
//
//   plain         the product is not changed
//   peel          odd sizes are peeled; rows get a longer stride or a copy if needed
//   pad           odd sizes are padded; rows get a longer stride or a copy if needed
//   pad_and_peel  some odd sizes are padded, others peeled
//   interleave    several products write the rows (interleave_rows.h)
struct AlignWay {
  std::string name;
  std::optional<AlignRemedy> remedy;  // none for "plain"
};

// The ways that the options and the program's buffers allow, with distinct names. The
// one that the estimates choose comes first. Empty if there is nothing to choose.
std::vector<AlignWay> AlignWaysOf(const Contraction& contraction,
                                  const LoopProgram& program,
                                  const Target& target,
                                  const AlignOptions& options);

struct AlignChoice {
  std::optional<AlignRemedy> remedy;
  // The key under which decisions about the product are stored, without blanks:
  // "way_align/bf16/8192x50257x768/5f0c9a31d2b7/sm_90". It holds the dtype, the sizes
  // [batch,] m, n, k, a digest of everything that the ways and their times depend on,
  // and the target. A symbol counts as the next power of two of its hint, "2^10".
  // Empty if there is nothing to choose.
  std::string key;
  std::string decision;  // found in the table; empty: none
  std::string ignored;   // why the decision was ignored; empty: it was not
};

// The way that the table's decision names. If there is no decision, or if it names no
// way of this product, the way that the estimates choose. Pure; equal in every process.
AlignChoice DecideAlignment(const Contraction& contraction,
                            const LoopProgram& program, const Target& target,
                            const AlignOptions& options,
                            const TuningTable& tuning);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_ALIGN_WAYS_H_
