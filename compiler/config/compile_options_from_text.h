#ifndef KILN_COMPILER_CONFIG_COMPILE_OPTIONS_FROM_TEXT_H_
#define KILN_COMPILER_CONFIG_COMPILE_OPTIONS_FROM_TEXT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/config/compile_options.h"

namespace kiln {

// "force_shape_pad=1, max_fusion_size=8": fields of wire::ArtifactOptions by their
// names, numbers and booleans; the others are as by default.
//
// Errors:
//   BAD_OPTION  no such field, no number, or one that is out of bounds
absl::StatusOr<CompileOptions> CompileOptionsFromText(absl::string_view text);

}  // namespace kiln

#endif  // KILN_COMPILER_CONFIG_COMPILE_OPTIONS_FROM_TEXT_H_
