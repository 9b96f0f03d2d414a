#ifndef KILN_COMPILER_SCHEDULE_CHOOSE_CONTRACTION_H_
#define KILN_COMPILER_SCHEDULE_CHOOSE_CONTRACTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/config/target.h"
#include "compiler/loop/contraction.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// Whether one call of a library of `target` computes a verified contraction, its
// prologue and epilogue included. `ground` says who does, or what none does.
// Source: what runtime/extern_kernels/extern_kernel.h promises.
bool LibraryTakes(const Contraction& contraction,
                  const std::vector<Buffer>& buffers, const Target& target,
                  std::string& ground);

// Whether engines of cuDNN can compute what stands behind the sums of a convolution
// while they write: of images of half types that lie channels-last, in whole vectors
// of channels and in one group, no gradient. It has to be the whole, max(sum + bias +
// added, 0), where what is added may lack: 0.4 to 1.0 of the time of a convolution
// and a pass on an H100 (bench/records/h100_contractions.md).
bool EpilogueOnCudnn(const Contraction& contraction);

enum class ComputedBy : uint8_t {
  kLibrary,
  kLoops,  // a nest of ours, which fusion sees
};
struct ContractionChoice {
  ComputedBy by = ComputedBy::kLibrary;
  std::string ground;  // "own loops, tiny products"; "oneDNN: a size of 0"
};

// Who computes a verified contraction. Loops of ours take a product that is bound
// by memory and not by multiplications, where a library has nothing to win and
// fusion has: an outer product, one with a vector, many tiny ones; and what no
// library takes. A size that is not known is no ground.
ContractionChoice ChooseContraction(const Contraction& contraction,
                                    const std::vector<Buffer>& buffers,
                                    const ShapeEnv& shapes,
                                    const Target& target);

// Makes nests of the contractions that loops of ours compute, and tells of them in
// the program's own_contractions; gives how many. Linear in steps.
int64_t ChooseContractions(LoopProgram& program, const Target& target);

// A line for each contraction, without its end: those that are loops by now, then
// those that are steps still, and who computes them. Of attention, which was chosen
// before it was a step (graph/attention_choice.h), too.
//
//   product mm [m 1, n 256, k 512] bf16: own loops, a product with a vector
//   product addmm [m 64, n 128, k 32] f32: cuBLASLt, bias: a product of matrices
std::vector<std::string> ExplainContractions(const LoopProgram& program,
                                             const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CHOOSE_CONTRACTION_H_
