#ifndef KILN_COMPILER_CODEGEN_PRELUDE_H_
#define KILN_COMPILER_CODEGEN_PRELUDE_H_

// The source of the functions that generated kernels call. Kernels include no headers,
// because these cost much compile time. Instead a unit contains the parts of its
// dialect's prelude that it uses.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace kiln {

// Definitions that belong together. In `stem` and `text`, $T stands for the ending of a
// dtype ("f32"), $C for its C type, and $S for "f" if it is float, otherwise for nothing.
struct PreludePart {
  absl::string_view stem;   // the identifier it defines: "k_load_$T"
  absl::string_view types;  // endings it exists for: "f32 f64"; "" for none
  absl::string_view text;
};

// The parts that `source` uses, and those that these parts use. Each occurs once, before
// the parts that use it. `variables` gives the texts that replace "$L" and the like.
std::string PreludeFor(
    absl::string_view source, absl::Span<const PreludePart> parts,
    absl::Span<const std::pair<absl::string_view, std::string>> variables);

// The two dialects' parts.
std::vector<PreludePart> CpuPrelude();
std::vector<PreludePart> CudaPrelude();

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_PRELUDE_H_
