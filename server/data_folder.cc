#include "server/data_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/cleanup/cleanup.h"
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

// Whether the folder is empty or a daemon's. Anything else is not ours to close
// to others.
bool IsOurs(const std::string& folder) {
  std::error_code error;
  for (const char* name : kOwnFiles)
    if (std::filesystem::exists(absl::StrCat(folder, "/", name), error))
      return true;
  // A first start that was cut short may have left nothing but its first key's
  // unfinished file (signer.h).
  bool is_empty = true;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (absl::StartsWith(file.path().filename().string(), "signing.key."))
      return true;
    is_empty = false;
  }
  return is_empty;
}

absl::Status CannotBeWritten(const std::string& path,
                             const std::error_code& error) {
  return MakeError(
      ErrorReason::kStorage,
      absl::StrCat("data folder ", path, ": ", error.message(),
                   "; name one that can be written with --data-folder"));
}

absl::Status CannotBeWritten(const std::string& path) {
  return CannotBeWritten(path, std::error_code(errno, std::generic_category()));
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
absl::Status CheckOwners(const std::string& path) {
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(path, error)) {
    struct stat found = {};
    if (lstat(file.path().c_str(), &found) != 0) continue;  // gone meanwhile
    RETURN_IF_ERROR(CheckOwner(path, file.path().filename().string(), found));
  }
  return error ? CannotBeWritten(path, error) : absl::OkStatus();
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
      return CannotBeWritten(path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TakeDataFolder(const std::string& path) {
  RETURN_IF_ERROR(CheckWay(path));
  RETURN_IF_ERROR(MakeFolders(path));
  // Once more: another user may have made, meanwhile, what was not there.
  RETURN_IF_ERROR(CheckWay(path));
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return CannotBeWritten(path);
  const absl::Cleanup close_it = [fd] { close(fd); };
  struct stat found = {};
  if (fstat(fd, &found) != 0) return CannotBeWritten(path);
  RETURN_IF_ERROR(CheckOwner(path, "it", found));
  if (!IsOurs(path)) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("data folder ", path,
                     ": contains files of another program; name a new or empty "
                     "folder with --data-folder"));
  }
  if (fchmod(fd, 0700) != 0 || access(path.c_str(), W_OK | X_OK) != 0) {
    return CannotBeWritten(path);
  }
  // Nobody puts anything there any more.
  return CheckOwners(path);
}

}  // namespace kiln
