#include "server/data_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/status.h"
#include "server/folder_trust.h"

namespace kiln {
namespace {

// What a daemon of this or an earlier build has in its data folder, and what the
// Python package puts beside it, before the first start too.
constexpr const char* kOwnFiles[] = {"signing.key", "records",   "cache",
                                     "audit.log",   "kilnd.log", "sources"};

// The socket's name where it lies in this folder; else empty.
std::string NameIn(const struct stat& folder, const std::string& socket) {
  const std::filesystem::path path(socket);
  const std::string parent = path.parent_path().string();
  struct stat found = {};
  if (socket.empty() ||
      stat(parent.empty() ? "." : parent.c_str(), &found) != 0)
    return "";
  const bool is_same =
      found.st_dev == folder.st_dev && found.st_ino == folder.st_ino;
  return is_same ? path.filename().string() : "";
}

// Whether the folder is empty or a daemon's. Anything else is not ours to close
// to others. `socket`: the name of this daemon's own in it, or empty.
bool IsOurs(const std::vector<std::string>& names, const std::string& socket) {
  bool is_empty = true;
  for (const std::string& name : names) {
    if (std::find(std::begin(kOwnFiles), std::end(kOwnFiles), name) !=
        std::end(kOwnFiles)) {
      return true;
    }
    // A first start that was cut short may have left nothing but its first key's
    // unfinished file (signer.h).
    if (absl::StartsWith(name, "signing.key.")) return true;
    const bool is_sockets =
        !socket.empty() && (name == socket || name == socket + ".lock");
    is_empty = is_empty && is_sockets;
  }
  return is_empty;
}

// `what`: the path, a colon and why.
absl::Status CannotBeWritten(absl::string_view what) {
  return MakeError(
      ErrorReason::kStorage,
      absl::StrCat("data folder ", what,
                   "; name one that can be written with --data-folder"));
}

absl::Status SystemRefused(const std::string& path) {
  return CannotBeWritten(absl::StrCat(path, ": ", strerror(errno)));
}

// `what`: the folder, or a file or link in it.
absl::Status CheckOwner(const std::string& path, absl::string_view what,
                        const struct stat& found) {
  if (found.st_uid == geteuid()) return absl::OkStatus();
  return MakeError(
      ErrorReason::kPermission,
      absl::StrCat("data folder ", path, ": ", what, " belongs to user ",
                   found.st_uid, ", expected ", geteuid(),
                   "; name a folder of your own with --data-folder"));
}

// Another user's key would sign, and another's link lead anywhere.
absl::Status CheckOwners(const OpenFolder& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, folder.Names());
  for (const std::string& name : names) {
    struct stat found = {};
    if (fstatat(folder.fd(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0)
      continue;  // gone meanwhile
    RETURN_IF_ERROR(CheckOwner(folder.path(), name, found));
  }
  return absl::OkStatus();
}

// `folder`: one on the way to the data folder `path`.
absl::Status CheckFolder(const std::string& path, const std::string& folder) {
  struct stat found = {};
  // What is no folder leads nowhere, and making the data folder will say so.
  if (lstat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode))
    return absl::OkStatus();
  const std::string how = HowOthersMayChange(folder, found);
  if (how.empty()) return absl::OkStatus();
  return MakeError(
      ErrorReason::kPermission,
      absl::StrCat("data folder ", path,
                   ": others could put another in its "
                   "place, since ",
                   folder, " is ", how,
                   "; close that one to them (chown, chmod go-w), or name a "
                   "data folder elsewhere with --data-folder"));
}

// A folder or a link on the way in which, or by which, another user could choose among
// this user's folders, and choose again while the daemon runs. As far as there is a way.
absl::Status CheckWay(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the system's
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path whole = fs::absolute(path, error).relative_path();
  std::deque<fs::path> ahead(whole.begin(), whole.end());
  fs::path at = "/";  // no links any more
  int links = 0;
  while (!ahead.empty() && links < kMostLinks) {
    const fs::path name = ahead.front();
    ahead.pop_front();
    if (name.empty() || name == ".") continue;
    RETURN_IF_ERROR(CheckFolder(path, at.string()));
    if (name == "..") {
      at = at.parent_path();
      continue;
    }
    const fs::path next = at / name;
    struct stat found = {};
    if (lstat(next.c_str(), &found) != 0) break;  // nothing is there yet
    if (!S_ISLNK(found.st_mode)) {
      at = next;
      continue;
    }
    if (!IsOwnOrRoots(found.st_uid)) {
      RETURN_IF_ERROR(
          CheckOwner(path, absl::StrCat("the link ", next.string()), found));
    }
    const fs::path target = fs::read_symlink(next, error);
    if (target.is_absolute()) at = "/";
    const fs::path names = target.relative_path();
    ahead.insert(ahead.begin(), names.begin(), names.end());
    ++links;
  }
  return absl::OkStatus();
}

// Others may not write what is made, whatever the umask.
absl::Status MakeFolders(const std::string& path) {
  std::filesystem::path made;
  for (const std::filesystem::path& name : std::filesystem::path(path)) {
    made /= name;
    if (mkdir(made.c_str(), 0755) != 0 && errno != EEXIST)
      return SystemRefused(path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenFolder> TakeDataFolder(const std::string& path,
                                          const std::string& socket) {
  RETURN_IF_ERROR(CheckWay(path));
  RETURN_IF_ERROR(MakeFolders(path));
  // Once more: another user may have made, meanwhile, what was not there.
  RETURN_IF_ERROR(CheckWay(path));
  absl::StatusOr<OpenFolder> folder = OpenFolder::Open(path);
  if (!folder.ok()) return CannotBeWritten(folder.status().message());
  struct stat found = {};
  if (fstat(folder->fd(), &found) != 0) return SystemRefused(path);
  RETURN_IF_ERROR(CheckOwner(path, "it", found));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, folder->Names());
  if (!IsOurs(names, NameIn(found, socket))) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("data folder ", path,
                     ": contains files of another program; name a new or empty "
                     "folder with --data-folder"));
  }
  if (fchmod(folder->fd(), 0700) != 0 ||
      faccessat(folder->fd(), ".", W_OK | X_OK, 0) != 0) {
    return SystemRefused(path);
  }
  // Nobody puts anything there any more.
  RETURN_IF_ERROR(CheckOwners(*folder));
  return folder;
}

}  // namespace kiln
