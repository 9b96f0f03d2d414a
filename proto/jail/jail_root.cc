#include "proto/jail/jail_root.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/status.h"
#include "proto/jail/jail_identity.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

absl::Status SystemError(absl::string_view what) {
  return absl::ErrnoToStatus(errno, what);
}

// Any folder that is there, and that everybody may walk to, will do to mount the
// new root on.
constexpr char kPlace[] = "/dev";

// Something of the old root, cut out with what is mounted below it: the new root
// is mounted over a part of the old one.
struct Piece {
  std::string path;
  int fd = -1;
  bool folder = false;
};

// By number: older C libraries lack these calls.
int SetAttributes(int fd, const char* path, uint64_t attributes, int flags) {
  mount_attr set = {};
  set.attr_set = attributes;
  return static_cast<int>(
      syscall(SYS_mount_setattr, fd, path, flags, &set, sizeof(set)));
}

// `attributes`: MOUNT_ATTR_...
absl::StatusOr<Piece> CutOut(const std::string& path, uint64_t attributes) {
  Piece piece{.path = path};
  piece.fd = static_cast<int>(
      syscall(SYS_open_tree, AT_FDCWD, path.c_str(),
              OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
  struct stat found = {};
  if (piece.fd < 0 || fstat(piece.fd, &found) != 0) return SystemError(path);
  piece.folder = S_ISDIR(found.st_mode);
  if (SetAttributes(piece.fd, "", attributes, AT_EMPTY_PATH | AT_RECURSIVE) !=
      0) {
    return SystemError(absl::StrCat(path, " with fewer rights"));
  }
  return piece;
}

absl::Status MakePlace(const std::string& place, bool folder) {
  std::error_code error;
  const fs::path path(place);
  fs::create_directories(folder ? path : path.parent_path(), error);
  if (error) return absl::ErrnoToStatus(error.value(), place);
  if (folder) return absl::OkStatus();
  const int fd = open(place.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0444);
  if (fd < 0) return SystemError(place);
  close(fd);
  return absl::OkStatus();
}

// `piece` at its own path below `root`.
absl::Status Show(const Piece& piece, const std::string& root) {
  const std::string place = root + piece.path;
  RETURN_IF_ERROR(MakePlace(place, piece.folder));
  if (syscall(SYS_move_mount, piece.fd, "", AT_FDCWD, place.c_str(),
              MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return SystemError(absl::StrCat("mount ", piece.path));
  }
  return absl::OkStatus();
}

// A link of the old root, as /bin is one to usr/bin.
absl::Status CopyLink(const std::string& path, const std::string& root) {
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  if (!error) fs::create_symlink(target, root + path, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(), path);
}

absl::StatusOr<std::vector<Piece>> CutOutAll(const JailView& view,
                                             std::vector<std::string>& links) {
  constexpr uint64_t kData = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  std::vector<Piece> all;
  std::error_code error;
  for (const std::string& path : view.readable) {
    const bool at_top = fs::path(path).parent_path() == "/";
    if (at_top && fs::is_symlink(path, error)) {
      links.push_back(path);
      continue;
    }
    ASSIGN_OR_RETURN(Piece piece, CutOut(path, kData | MOUNT_ATTR_RDONLY));
    all.push_back(std::move(piece));
  }
  for (const std::string& path : view.devices) {
    ASSIGN_OR_RETURN(Piece piece,
                     CutOut(path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
    all.push_back(std::move(piece));
  }
  for (const std::string& path : view.writable) {
    ASSIGN_OR_RETURN(Piece piece, CutOut(path, kData));
    all.push_back(std::move(piece));
  }
  // A folder before what lies in it, which it would hide.
  std::stable_sort(all.begin(), all.end(), [](const Piece& a, const Piece& b) {
    return a.path < b.path;
  });
  return all;
}

void ShowProc(const std::string& root, bool writable) {
  const std::string place = root + "/proc";
  if (mkdir(place.c_str(), 0555) != 0) return;
  // A container whose own /proc is masked may not have one; compilers need none.
  mount("proc", place.c_str(), "proc",
        MS_NOSUID | MS_NODEV | MS_NOEXEC | (writable ? 0 : MS_RDONLY), nullptr);
}

absl::Status MoveInto(const std::string& root, const std::string& scratch) {
  if (chdir(root.c_str()) != 0) return SystemError(root);
  if (syscall(SYS_pivot_root, ".", ".") != 0) return SystemError("pivot_root");
  if (umount2(".", MNT_DETACH) != 0) return SystemError("the old root");
  if (SetAttributes(AT_FDCWD, "/", MOUNT_ATTR_RDONLY, /*flags=*/0) != 0) {
    return SystemError("the new root read-only");
  }
  if (chdir(scratch.c_str()) != 0) return SystemError(scratch);
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeJailRoot(const JailView& view, const std::string& scratch,
                          std::optional<uid_t> builder) {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return SystemError("mounts of its own");
  }
  std::vector<std::string> links;
  ASSIGN_OR_RETURN(const std::vector<Piece> all, CutOutAll(view, links));
  if (builder.has_value()) RETURN_IF_ERROR(BecomeUser(*builder));
  const std::string root = kPlace;
  if (mount("kiln", kPlace, "tmpfs", MS_NOSUID | MS_NODEV,
            "mode=0755,size=4m") != 0) {
    return SystemError(absl::StrCat("tmpfs on ", root));
  }
  for (const Piece& piece : all) {
    RETURN_IF_ERROR(Show(piece, root));
    close(piece.fd);
  }
  for (const std::string& link : links) {
    RETURN_IF_ERROR(CopyLink(link, root));
  }
  ShowProc(root, view.writes_proc);
  if (access((root + "/tmp").c_str(), F_OK) != 0 &&
      symlink(scratch.c_str(), (root + "/tmp").c_str()) != 0) {
    return SystemError("/tmp");
  }
  return MoveInto(root, scratch);
}

}  // namespace kiln
