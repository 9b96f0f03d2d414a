#include "server/socket_folder.h"

#include <sys/stat.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/status.h"
#include "server/folder_trust.h"

namespace kiln {
namespace {

absl::Status Refuse(const std::string& folder, absl::string_view found) {
  return MakeError(
      ErrorReason::kPermission,
      absl::StrCat("socket folder ", folder, ": ", found,
                   "; name a socket in a folder of your own with --socket"));
}

}  // namespace

absl::Status TakeSocketFolder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) return absl::OkStatus();
  if (mkdir(folder.c_str(), 0700) == 0) return absl::OkStatus();
  struct stat found = {};
  // A folder that is not there is the socket's to tell of.
  if (lstat(folder.c_str(), &found) != 0) return absl::OkStatus();
  if (S_ISLNK(found.st_mode) && !IsOwnOrRoots(found.st_uid))
    return Refuse(folder, "a link");
  if (stat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    return Refuse(folder, "no folder");
  }
  const std::string how = HowOthersMayChange(folder, found);
  if (!how.empty()) return Refuse(folder, how);
  return absl::OkStatus();
}

}  // namespace kiln
