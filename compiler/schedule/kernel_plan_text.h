#ifndef KILN_COMPILER_SCHEDULE_KERNEL_PLAN_TEXT_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_PLAN_TEXT_H_

// Kernel plans as text: the loop text of each kernel with its variant, and where buffers
// lie.
//
//   plan @softmax(s0 in [1, 65536] = 64) {
//     in x : f32[512*s0] index 0
//     tmp buf1 : f32[512*s0] at 0 bytes 2048*s0
//     out buf2 : f32[512*s0]
//     kernel kiln_per_fused_amax_sub_0 cuda rows vector 4 lanes 64 rows 2 held 2 ... {
//       nest amax+sub [i0 in s0, reduce i1 in 512] { … }
//     }
//     kernel kiln_for_fused_add_1 {
//       part cuda points vector 4 unroll 1 threads 256 peel 0 {
//         nest add [i0 in 64] { … }
//       }
//       part cuda points … { … }
//     }
//     kernel kiln_tem_fused_attention_2 cuda flash warps 4 ... part forward {
//       attention attention [b 2, h 8, ...] { … }
//     }
//     call mm from mm (view buf1 f32 […] …; …) -> (…)
//     fill buf3 = 0
//     mutates 0
//     return view buf2 f32 [s0, 512] strides [512, 1] offset 0
//     arena 2048*s0 bytes, peak live 131072
//   }
//
// kernel_variant.h explains the numbers of a variant. If a kernel has a workspace, its two
// buffers follow the variant: "workspace buf3 counters". A kernel of an attention's
// gradient has the buffer of its sums there: "sums buf4". A buffer without "at" has no
// place in the arena, and its bytes are those of its elements. See loop_text.h for the
// statements of loops and for what is not in the text.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

std::string ToText(const KernelPlan& plan);
std::string ToText(const PlannedKernel& kernel,
                   const std::vector<Buffer>& buffers);
std::string ToText(const CombinedKernel& kernel,
                   const std::vector<Buffer>& buffers);
std::string ToText(const FlashKernel& kernel,
                   const std::vector<Buffer>& buffers);

// Reads what ToText writes. Errors: INVALID_ARGUMENT with line, column, what was found and
// what was expected. Does not verify the plan (kernel_plan_verifier.h).
absl::StatusOr<KernelPlan> ParseKernelPlan(absl::string_view text);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_PLAN_TEXT_H_
