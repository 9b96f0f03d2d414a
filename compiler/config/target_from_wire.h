#ifndef KILN_COMPILER_CONFIG_TARGET_FROM_WIRE_H_
#define KILN_COMPILER_CONFIG_TARGET_FROM_WIRE_H_

#include "absl/status/statusor.h"
#include "compiler/config/target.h"
#include "proto/artifact.pb.h"

namespace kiln {

// The target a request names. BAD_TARGET when it names none, or one that
// TargetFromName does not know.
absl::StatusOr<Target> TargetFromWire(const wire::Target& wire);

}  // namespace kiln

#endif  // KILN_COMPILER_CONFIG_TARGET_FROM_WIRE_H_
