#ifndef KILN_CLIENT_COMPILECTL_TARGET_OF_H_
#define KILN_CLIENT_COMPILECTL_TARGET_OF_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/artifact.pb.h"

namespace kiln {

// The target of "--device" and "--arch": "cuda" with an architecture like "sm_90" (the
// default), or "cpu" with a level like "x86-64-v3" (default: all that this machine has).
// BAD_TARGET for another device. The daemon checks that the architecture exists.
absl::StatusOr<wire::Target> TargetOf(const std::string& device,
                                      const std::string& arch);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_TARGET_OF_H_
