#include "server/socket_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "proto/base/status.h"

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
  const bool own = found.st_uid == geteuid() || found.st_uid == 0;
  if (S_ISLNK(found.st_mode) && !own) return Refuse(folder, "a link");
  if (stat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    return Refuse(folder, "no folder");
  }
  if (found.st_uid != geteuid() && found.st_uid != 0) {
    return Refuse(folder, absl::StrCat("owned by user ", found.st_uid,
                                       ", expected ", geteuid()));
  }
  if ((found.st_mode & 022) != 0 && (found.st_mode & S_ISVTX) == 0) {
    return Refuse(folder,
                  absl::StrFormat("mode %04o, which others may write",
                                  static_cast<int>(found.st_mode & 07777)));
  }
  return absl::OkStatus();
}

}  // namespace kiln
