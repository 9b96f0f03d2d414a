#include "server/access/open_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::Status Refuse(const std::string& path) {
  return MakeError(ErrorReason::kStorage,
                   absl::StrCat(path, ": ", strerror(errno)));
}

}  // namespace

absl::StatusOr<OpenFolder> OpenFolder::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Refuse(path);
  return OpenFolder(
      path, std::shared_ptr<const int>(new int(fd), [](const int* shared) {
        close(*shared);
        delete shared;
      }));
}

std::string OpenFolder::PathOf(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

bool OpenFolder::Has(const std::string& name) const {
  struct stat found = {};
  return fstatat(fd(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0;
}

absl::StatusOr<std::vector<std::string>> OpenFolder::Names() const {
  // Opened anew: a copy of the descriptor would share its place in the listing.
  const int again = openat(fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (again < 0) return Refuse(path_);
  DIR* listing = fdopendir(again);
  if (listing == nullptr) {
    const absl::Status refused = Refuse(path_);
    close(again);
    return refused;
  }
  const absl::Cleanup close_it = [listing] { closedir(listing); };
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* file = readdir(listing)) {
    const absl::string_view name = file->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return Refuse(path_);
  return names;
}

}  // namespace kiln
