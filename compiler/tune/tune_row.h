#ifndef KILN_COMPILER_TUNE_TUNE_ROW_H_
#define KILN_COMPILER_TUNE_TUNE_ROW_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/config/target.h"
#include "compiler/toolchain/toolchain.h"
#include "compiler/tune/row_choice.h"
#include "compiler/tune/stopwatch.h"

namespace kiln {

struct RowQuestion {
  int64_t rows = 1;
  int64_t columns = 1;  // elements of a row
  DType dtype = DType::kFloat32;
  int repeats = 0;  // of each variant; 0: 21
};

struct RowAnswer {
  std::string key;
  std::string choice;  // the winner's text
  std::vector<std::string> choices;
  std::vector<double> seconds;  // medians, one a choice
};

// Writes a row reduction (each row is summed, then scaled by its sum: a read
// with a reduction, a read and a write) once for every choice, builds all and
// times them.
//
// The winner is the first choice within 2% of the best, so that noise does not
// move it from run to run.
//
// Errors: those of `toolchain` and `stopwatch`; UNSUPPORTED_OP for a dtype that
// is not a float.
absl::StatusOr<RowAnswer> TuneRow(const RowQuestion& question,
                                  const Target& target, Toolchain& toolchain,
                                  Stopwatch& stopwatch);

// The kernel that is timed, under `choice`.
PlannedKernel RowKernel(const RowQuestion& question, const RowChoice& choice,
                        const Target& target, std::vector<Buffer>& buffers);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_TUNE_ROW_H_
