#ifndef KILN_COMPILER_SCHEDULE_CHOOSE_ALGORITHM_H_
#define KILN_COMPILER_SCHEDULE_CHOOSE_ALGORITHM_H_

#include <string>

#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/schedule/library_call.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// The key under which tuning decisions about a library call are stored, without blanks:
// "addmm/bf16/8192x768x3072/5f0c9a31d2b7/sm_90". It has the call, its dtype, sizes, a
// digest and the target. The sizes of a product are m, n, k, after the batch if there is
// one; those of a convolution are the sizes of its result, those of an attention the
// sizes of its first result and the number of keys. A symbol has the next power of two
// of its hint, "2^10". The digest covers everything that a library's choice
// depends on: sizes, strides, alignment, attributes.
//
// Empty if the library has no choice. Products, convolutions and attention on CUDA have
// one, but no attention with dropout: its forward and its backward draw alike by one
// engine alone.
//
// Pure; equal in every process.
std::string TuningKey(const LibraryCall& call,
                      const std::vector<Buffer>& buffers,
                      const ShapeEnv& shapes, const Target& target);

// Sets the algorithm of each call that has a choice to what a decision of `tuning`
// names, and notes its key in the plan's `tuned`. The library chooses when the plan is
// bound if there is no decision, or if it has no algorithm of that name. Returns how
// many calls got an algorithm. Linear in steps.
//
// `deterministic`: the gradient of an attention has no key and keeps the library's
// choice, since the order in which an engine adds its blocks up is not in its name.
int64_t ChooseAlgorithms(KernelPlan& plan, const Target& target,
                         const TuningTable& tuning, bool deterministic);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CHOOSE_ALGORITHM_H_
