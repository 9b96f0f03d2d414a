#include "server/detached_status.h"

#include <string>

#include "absl/strings/cord.h"

namespace kiln {

absl::Status Detached(const absl::Status& status) {
  absl::Status copy(status.code(), status.message());
  status.ForEachPayload(
      [&copy](absl::string_view type, const absl::Cord& payload) {
        copy.SetPayload(type, absl::Cord(std::string(payload)));
      });
  return copy;
}

}  // namespace kiln
