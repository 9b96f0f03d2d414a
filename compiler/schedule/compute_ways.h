#ifndef KILN_COMPILER_SCHEDULE_COMPUTE_WAYS_H_
#define KILN_COMPILER_SCHEDULE_COMPUTE_WAYS_H_

// Who computes a contraction or an attention on CUDA, a library or kernels of ours: what
// a measurement compares and what a tuning decision names, as ConfigSpace is for kernels
// of nests. Names, which are the words of decisions:
//
//   library  one call
//   loops    generated nests (of a contraction)
//   flash    flash kernels (of an attention)

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/config/compile_options.h"
#include "compiler/config/target.h"
#include "compiler/config/tuning_table.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/choose_contraction.h"
#include "compiler/schedule/step_alone.h"

namespace kiln {

struct DecidedChoice {
  ContractionChoice choice;
  // Under which decisions about the step are stored (contraction_key.h):
  // "way_product/...", "way_convolution/..." or "way_attention/...". Empty if there is
  // no choice: a library does not take it, or there are no loops of ours for it, or they
  // would take many times as long.
  std::string key;
  std::string decision;  // of the table; may be empty
  // For people: "tuned: loops", or "ignored: " and why; empty without a decision.
  std::string note;
};

// What the decision names, or what ChooseContraction says where there is none or where
// it cannot be taken. Pure; equal in every process.
DecidedChoice DecideContraction(const Contraction& contraction,
                                const std::vector<Buffer>& buffers,
                                const ShapeEnv& shapes, const Target& target,
                                const ArtifactOptions& options,
                                const TuningTable& tuning);

// The same of ChooseAttentionStep. There is a choice where it takes cuDNN and the options
// do not ask for kernels of ours, but for dropout, which a forward and its backward draw
// alike by one engine alone, and for a bias or a window, which may leave a row without
// keys: engines have their own words for its logarithm.
DecidedChoice DecideAttention(const Attention& attention,
                              const std::vector<Buffer>& buffers,
                              const ShapeEnv& shapes, const Target& target,
                              const ArtifactOptions& options,
                              const TuningTable& tuning);

// The step of an aligned program whose decisions have `key`, alone, once for each of its
// ways; what is chosen without a decision first. The programs are equal: a decision under
// the key tells them apart. Empty if there is none.
std::vector<StepAlone> ComputeWays(const LoopProgram& program,
                                   const Target& target,
                                   const ArtifactOptions& options,
                                   absl::string_view key);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_COMPUTE_WAYS_H_
