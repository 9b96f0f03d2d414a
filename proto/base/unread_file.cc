#include "proto/base/unread_file.h"

#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {

absl::Status UnreadFile(const std::string& path, int error,
                        absl::string_view what_is_there) {
  std::string seen_from;
  if (!path.starts_with("/")) {
    std::error_code unknown;
    seen_from = absl::StrCat(" (seen from ",
                             std::filesystem::current_path(unknown).string(),
                             what_is_there, ")");
  }
  return MakeError(
      ErrorReason::kBadOption,
      absl::StrCat(path, ": can't be read: ", strerror(error), seen_from));
}

}  // namespace kiln
