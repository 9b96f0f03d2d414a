#ifndef KILN_COMPILER_CODEGEN_PRELUDE_H_
#define KILN_COMPILER_CODEGEN_PRELUDE_H_

// The functions that generated kernels call, as source. Kernels include
// nothing: a unit carries the parts of its dialect's prelude that it uses, in
// order of need. (facts: measured_costs, what headers cost.)

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace kiln {

// Some definitions that go together. In `stem` and `text`, $T is the ending of
// a dtype ("f32"), $C its C type, $S "f" for float and nothing else.
struct PreludePart {
  absl::string_view stem;   // the identifier it defines: "k_load_$T"
  absl::string_view types;  // endings it exists for: "f32 f64"; "" for none
  absl::string_view text;
};

// The parts that `source` and the parts themselves name, each once, what is
// named before what names it. `variables` replaces "$L" and the like.
std::string PreludeFor(
    absl::string_view source, absl::Span<const PreludePart> parts,
    absl::Span<const std::pair<absl::string_view, std::string>> variables);

// The two dialects' parts.
std::vector<PreludePart> CpuPrelude();
std::vector<PreludePart> CudaPrelude();

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_PRELUDE_H_
