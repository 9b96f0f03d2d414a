#ifndef KILN_COMPILER_CONFIG_COMPILE_OPTIONS_FROM_WIRE_H_
#define KILN_COMPILER_CONFIG_COMPILE_OPTIONS_FROM_WIRE_H_

#include "absl/status/statusor.h"
#include "compiler/config/compile_options.h"
#include "proto/compile_service.pb.h"

namespace kiln {

// Zero on the wire is the default.
//
// Errors:
//   BAD_OPTION  a number out of range
absl::StatusOr<CompileOptions> CompileOptionsFromWire(
    const wire::CompileOptions& wire);

}  // namespace kiln

#endif  // KILN_COMPILER_CONFIG_COMPILE_OPTIONS_FROM_WIRE_H_
