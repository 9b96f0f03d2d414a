#ifndef KILN_COMPILER_SCHEDULE_CONTRACTION_KEY_H_
#define KILN_COMPILER_SCHEDULE_CONTRACTION_KEY_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/loop/attention.h"
#include "compiler/loop/contraction.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// The key under which tuning decisions about a contraction are stored, without blanks:
// "way_align/bf16/8192x50257x768/5f0c9a31d2b7/sm_90". `family` ("align") says what is
// decided. The sizes are those of the contraction's axes. A symbol counts as the next
// power of two of its hint, "2^10". The digest covers the contraction, the layout and
// alignment of its operands, and `words`, a text of everything else that the decision
// depends on.
//
// Pure; equal in every process.
std::string WayKeyOf(absl::string_view family, absl::string_view words,
                     const Contraction& contraction,
                     const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
                     const Target& target);

// The same for an attention: "way_attention/bf16/8x12x1024x1024x64/5f0c9a31d2b7/sm_90".
// The sizes are batch, heads, queries, keys and the size of a head.
std::string WayKeyOf(absl::string_view family, absl::string_view words,
                     const Attention& attention,
                     const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
                     const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CONTRACTION_KEY_H_
