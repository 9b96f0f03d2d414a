#ifndef KILN_COMPILER_SCHEDULE_CHOOSE_CONTRACTION_H_
#define KILN_COMPILER_SCHEDULE_CHOOSE_CONTRACTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/config/compile_options.h"
#include "compiler/config/target.h"
#include "compiler/config/tuning_table.h"
#include "compiler/loop/contraction.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

enum class ComputedBy : uint8_t {
  kLibrary,
  kLoops,  // a generated nest, which can be fused
  kFlash,  // flash kernels (flash_kernel.h)
};
struct ContractionChoice {
  ComputedBy by = ComputedBy::kLibrary;
  std::string ground;  // "own loops, tiny products"; "oneDNN: a size of 0"
};

// Decides what computes a verified contraction. Generated loops take products whose
// time goes into memory and not into multiplications, since there fusion saves more
// than a library: outer products, products with a vector, many tiny ones. They take
// large results of short sums of half types, by tensor cores (matrix_product.h), where
// their price is below what the library was measured to take. They also take what no
// library computes. An unknown size is not a reason to choose loops. On
// CUDA they take a convolution with a window for each channel, and its gradients, where
// their price (nest_price.h) is below what cuDNN's kernel was measured to take.
ContractionChoice ChooseContraction(const Contraction& contraction,
                                    const std::vector<Buffer>& buffers,
                                    const ShapeEnv& shapes,
                                    const Target& target,
                                    const ArtifactOptions& options);

// Whether an attention is one that cuDNN computes, by the one place that decides between
// it and all else (graph/attention_choice.h). Flash kernels have all of those too.
bool IsForCudnn(const Attention& attention, const ShapeEnv& shapes,
                const Target& target);

// What computes an attention that is a step: a library, or flash kernels
// (flash_kernel.h) where the library lacks it or the options ask for them. A forward
// with dropout gets the same engine as its backward, whether the program holds the
// backward or not: a reentrant checkpoint runs a forward whose logsumexp nothing reads,
// and for the gradient another program that has to draw the same numbers.
ContractionChoice ChooseAttentionStep(const Attention& attention,
                                      const ShapeEnv& shapes,
                                      const Target& target,
                                      const ArtifactOptions& options);

// Replaces the contractions that generated loops compute by nests, adds them to the
// program's replaced_contractions, and marks the attentions that flash kernels compute:
// those that ChooseContraction and ChooseAttentionStep say, or a decision of `tuning`
// (compute_ways.h). Keys that are looked up go into the program's `tuned`. May add
// temporaries. Returns how many were changed. Linear in steps.
int64_t ChooseContractions(LoopProgram& program, const Target& target,
                           const ArtifactOptions& options,
                           const TuningTable& tuning = {});

// A line for each contraction, without a newline: first attention that was taken apart,
// then contractions that became loops, then those that are still steps, each with what
// computes it. Attention is listed too. A decision of `tuning` is named.
//
//   product mm [m 1, n 256, k 512] bf16: own loops, a product with a vector
//   product addmm [m 64, n 128, k 32] f32: cuBLASLt, bias: a product of matrices
std::vector<std::string> ExplainContractions(const LoopProgram& program,
                                             const Target& target,
                                             const ArtifactOptions& options,
                                             const TuningTable& tuning);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CHOOSE_CONTRACTION_H_
