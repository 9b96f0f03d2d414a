#ifndef KILN_COMPILER_CODEGEN_COMBINED_DIALECTS_H_
#define KILN_COMPILER_CODEGEN_COMBINED_DIALECTS_H_

#include <vector>

#include "absl/status/status.h"
#include "compiler/codegen/combined_bodies.h"
#include "compiler/codegen/kernel_source.h"

namespace kiln {

// Each fills text (with kSymbolPlaceholder for the name) and params of `source`:
// the arguments of the calls one behind the other, body by body. The bodies are
// pointwise.

// The items of all parts are numbered in this order and shared out together;
// errors are those of WriteCpuKernel.
absl::Status WriteCpuCombined(const std::vector<CombinedBody>& bodies,
                              const std::vector<Buffer>& buffers,
                              KernelSource& source);

// Grid and block too; waits_for_work_before is set already. INTERNAL when parts
// differ in threads, or have more arguments than kMaxKernelArguments.
absl::Status WriteCudaCombined(const std::vector<CombinedBody>& bodies,
                               const std::vector<Buffer>& buffers,
                               const Target& target, KernelSource& source);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_COMBINED_DIALECTS_H_
