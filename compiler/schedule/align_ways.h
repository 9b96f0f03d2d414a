#ifndef KILN_COMPILER_SCHEDULE_ALIGN_WAYS_H_
#define KILN_COMPILER_SCHEDULE_ALIGN_WAYS_H_

// The ways to align a product (align_contractions.h): what a measurement compares and
// what a tuning decision names, as ConfigSpace is for kernels of nests.

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

// Names, which are the words of decisions:
//
//   plain         the product as it is
//   peel          sizes in parts; rows copied or longer where they must be
//   pad           sizes and rows in whole vectors, longer or in copies
//   pad_and_peel  some of the sizes padded, others peeled
//   interleave    several products write the rows (interleave_rows.h)
struct AlignWay {
  std::string name;
  std::optional<AlignRemedy> remedy;  // none of "plain"
};

// The ways that the options and the program's memory allow, each name once, the one
// that the estimates choose first. Empty if the product is aligned, or if it can only
// stay as it is.
std::vector<AlignWay> AlignWaysOf(const Contraction& contraction,
                                  const LoopProgram& program,
                                  const Target& target,
                                  const AlignOptions& options);

struct AlignChoice {
  std::optional<AlignRemedy> remedy;
  // Under which decisions about the product are stored, without blanks:
  // "way_align/bf16/8192x50257x768/5f0c9a31d2b7/sm_90". It has the dtype, the sizes m,
  // n, k after the batch if there is one, a digest of all that the ways and their time
  // depend on, and the target. A symbol has the next power of two of its hint, "2^10".
  // Empty if there is no choice.
  std::string key;
  std::string decision;  // of the table; may be empty
  std::string ignored;   // why the decision was not taken; may be empty
};

// What the decision names, or what the estimates choose where there is none or where
// it cannot be taken. Pure; equal in every process.
AlignChoice DecideAlignment(const Contraction& contraction,
                            const LoopProgram& program, const Target& target,
                            const AlignOptions& options,
                            const TuningTable& tuning);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_ALIGN_WAYS_H_
