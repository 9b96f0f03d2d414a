#ifndef KILN_COMPILER_CODEGEN_KERNEL_NAMES_H_
#define KILN_COMPILER_CODEGEN_KERNEL_NAMES_H_

// The names of kernels in object code, which GPU profiles show.

#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// "kiln_poi_fused_add_cos_sin_5f0c9a2b41d7": the label of the kernel without its number
// (kernel_labels.h), and a digest of the kernel's text, so that different graphs share
// object code.
std::string KernelSymbol(absl::string_view label, absl::string_view text);

// The digest at the end of a symbol.
absl::string_view SymbolDigest(absl::string_view symbol);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_KERNEL_NAMES_H_
