#ifndef KILN_COMPILER_CODEGEN_CUDA_COMBINED_H_
#define KILN_COMPILER_CODEGEN_CUDA_COMBINED_H_

#include <vector>

#include "absl/status/status.h"
#include "compiler/codegen/combined_bodies.h"
#include "compiler/codegen/kernel_source.h"

namespace kiln {

// Fills text (with kSymbolPlaceholder for the name), params, grid and block of
// `source`. The bodies are pointwise. INTERNAL when parts differ in threads, or
// have more arguments than kMaxKernelArguments.
absl::Status WriteCudaCombined(const std::vector<CombinedBody>& bodies,
                               const std::vector<Buffer>& buffers,
                               KernelSource& source);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_COMBINED_H_
