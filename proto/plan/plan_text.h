#ifndef KILN_PROTO_PLAN_PLAN_TEXT_H_
#define KILN_PROTO_PLAN_PLAN_TEXT_H_

// LaunchPlans as text: what kiln-opt prints and reads, what people are shown,
// what tests are written in.
//
//   launch_plan (s0 in [1, 65536] from size 0 0, s1 in [0, 8] from step) {
//     input f32 [s0, 256] strides [256, 1] offset 0 cuda align 16 mutated
//     input scalar s0
//     buffer b0 "x" input 0 bytes 1024*s0
//     buffer b1 "buf1" arena bytes 8192 offset 64
//     buffer b2 "buf2" own bytes 64 written b2 f32 [4, 3] strides [4, 1] offset 0
//     kernel k0 kiln_poi_fused_add_5f0c label kiln_poi_fused_add_0 module 0
//       from [add, relu] reads 1024*s0 writes 1024*s0 mapped "XBLOCK=1024" over [s0, 256]
//       | the kernel's own text, a line each
//     launch k0 grid [s0, 1, 1] block [256, 1, 1] args [b0 f32 [s0, 256], b1 at 64, seed, s0*4] nodes [0, 2]
//     extern mm (b0 f32 [s0, 256] strides [256, 1] offset 0; …) -> (…) alpha=float 1 nodes [3]
//     copy b0 f32 […] … -> b1 f32 […] …
//     fill b1 f32 […] … bits 0
//     assert s0 < 7 "message"
//     bind s1 = 2*s0
//     host "op" (…) -> (…)
//     region "cond"
//     output view b0 f32 […] …
//     output sym s0 + 1
//     output none
//     arena 8192 bytes, peak live 8192
//   }
//
// A launch goes on with "shared 64", "cluster 2",
// "programmatic_dependent_launch" and "blocks_per_multiprocessor 32" where they
// are not 0. A symbol that is not called s and its number has its name in
// quotes behind it. Blanks and newlines separate; a line that begins with // is
// a comment.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/artifact.pb.h"

namespace kiln {

// Reads back to the same message where expressions are sound; an unsound one
// (sym_eval.h) is printed as such, and does not. Kernels' own texts are left
// out on request: they are long.
enum class KernelTexts { kWith, kWithout };
std::string PlanText(const wire::LaunchPlan& plan,
                     KernelTexts texts = KernelTexts::kWith);

// One step, in a line.
std::string StepText(const wire::PlanStep& step);

// Verifies nothing: plan_verifier.h does. INVALID_ARGUMENT "line 3 column 7:
// found 'x', due a number".
absl::StatusOr<wire::LaunchPlan> ParsePlan(absl::string_view text);

}  // namespace kiln

#endif  // KILN_PROTO_PLAN_PLAN_TEXT_H_
