#ifndef KILN_COMPILER_TUNE_ROW_CHOICE_H_
#define KILN_COMPILER_TUNE_ROW_CHOICE_H_

// The space in which row reductions are tuned: which kernels one decision is
// for, and between what it chooses.

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// How a row reduction is shared out. On CUDA threads of a row and rows of a
// block; on the CPU vectors that are reduced side by side.
struct RowChoice {
  int threads = 0;       // of one row
  int rows = 0;          // of a block
  int accumulators = 0;  // CPU

  friend bool operator==(const RowChoice&, const RowChoice&) = default;
};

// "threads=128 rows=1" or "accumulators=4".
std::string ToText(const RowChoice& choice);
// Empty for anything that ToText does not write.
std::optional<RowChoice> RowChoiceFromText(absl::string_view text);

// All that are tried, the expected one first. A function of the target alone.
std::vector<RowChoice> RowChoices(const Target& target);

// Takes the choice over into a variant that maps rows, of the choice's target.
void Apply(const RowChoice& choice, KernelVariant& variant);

// What a decision is filed under: "row_reduction/f32/2^12x2^10/sm_90". Sizes
// count as the next power of two.
std::string RowKey(DType dtype, int64_t rows, int64_t columns,
                   const Target& target);
// Whether it is one that RowKey gives for `target`, of any type and sizes.
bool IsRowKey(absl::string_view key, const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_ROW_CHOICE_H_
