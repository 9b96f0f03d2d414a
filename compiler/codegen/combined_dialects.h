#ifndef KILN_COMPILER_CODEGEN_COMBINED_DIALECTS_H_
#define KILN_COMPILER_CODEGEN_COMBINED_DIALECTS_H_

#include <vector>

#include "absl/status/status.h"
#include "compiler/codegen/combined_bodies.h"
#include "compiler/codegen/kernel_source.h"

namespace kiln {

// Both functions set text (with kSymbolPlaceholder for the name) and params of
// `source`: the arguments of all calls in order, body by body. The bodies are
// pointwise.

// The items of all parts are numbered in this order, and threads share all of them.
// Errors: as WriteCpuKernel.
absl::Status WriteCpuCombined(const std::vector<CombinedBody>& bodies,
                              const std::vector<Buffer>& buffers,
                              KernelSource& source);

// Also sets grid and block. waits_for_work_before is set already. INTERNAL if parts
// have different numbers of threads, or more arguments than kMaxKernelArguments.
absl::Status WriteCudaCombined(const std::vector<CombinedBody>& bodies,
                               const std::vector<Buffer>& buffers,
                               const Target& target, KernelSource& source);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_COMBINED_DIALECTS_H_
