#include "runtime/device.h"

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {

absl::Status CheckGrid(const DeviceTraits& traits,
                       absl::Span<const int64_t> grid) {
  for (size_t i = 0; i < grid.size(); ++i) {
    if (grid[i] <= traits.most_blocks[i]) continue;
    return MakeError(ErrorReason::kArtifactIncompatible,
                     absl::StrCat("grid extent ", i, ": found ", grid[i],
                                  ", expected 1 to ", traits.most_blocks[i]));
  }
  return absl::OkStatus();
}

}  // namespace kiln
