#ifndef KILN_CLIENT_COMPILECTL_TARGET_OF_H_
#define KILN_CLIENT_COMPILECTL_TARGET_OF_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/artifact.pb.h"

namespace kiln {

// The target that "--device" and "--arch" mean: "cuda" with "sm_90" (also when
// empty), "cpu" with "x86-64-v3" (when empty: all that this machine has).
// BAD_TARGET for another device. Whether the architecture exists is for the
// daemon to say.
absl::StatusOr<wire::Target> TargetOf(const std::string& device,
                                      const std::string& arch);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_TARGET_OF_H_
