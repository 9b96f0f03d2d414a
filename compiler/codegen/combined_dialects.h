#ifndef KILN_COMPILER_CODEGEN_COMBINED_DIALECTS_H_
#define KILN_COMPILER_CODEGEN_COMBINED_DIALECTS_H_

#include <vector>

#include "absl/status/status.h"
#include "compiler/codegen/combined_bodies.h"
#include "compiler/codegen/kernel_source.h"

namespace kiln {

// Both functions set the text (with kSymbolPlaceholder as the name) and the params of
// `source`: the arguments of all calls in order, body by body. The bodies must be
// pointwise.

// Numbers the items of all parts in this order; threads share all of them. Errors: as
// WriteCpuKernel.
absl::Status WriteCpuCombined(const std::vector<CombinedBody>& bodies,
                              const std::vector<Buffer>& buffers,
                              KernelSource& source);

// Also sets grid and block. The caller has set waits_for_work_before. Errors: INTERNAL if
// parts have different numbers of threads, or more than kMaxKernelArguments arguments.
absl::Status WriteCudaCombined(const std::vector<CombinedBody>& bodies,
                               const std::vector<Buffer>& buffers,
                               const Target& target, KernelSource& source);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_COMBINED_DIALECTS_H_
