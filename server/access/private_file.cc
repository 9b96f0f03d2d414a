#include "server/access/private_file.h"

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

absl::Status Refuse(ErrorReason reason, const std::string& path,
                    absl::string_view what) {
  return MakeError(reason, absl::StrCat(path, ": ", what));
}

absl::Status WriteWhole(int fd, absl::string_view bytes,
                        const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return Refuse(ErrorReason::kStorage, path, strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  return absl::OkStatus();
}

// `fd` is of the file called `path`, and is closed; negative: it did not open.
absl::StatusOr<std::string> ReadAndClose(int fd, const std::string& path,
                                         int64_t max_bytes) {
  if (fd < 0 && errno == ENOENT) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  if (fd < 0) return Refuse(ErrorReason::kStorage, path, strerror(errno));
  const absl::Cleanup close_it = [fd] { close(fd); };
  struct stat info = {};
  if (fstat(fd, &info) != 0) {
    return Refuse(ErrorReason::kStorage, path, strerror(errno));
  }
  if ((info.st_mode & 0077) != 0) {
    return Refuse(ErrorReason::kPermission, path,
                  "others may read or write it; expected mode 0600");
  }
  if (info.st_uid != geteuid()) {
    return Refuse(ErrorReason::kPermission, path,
                  absl::StrCat("belongs to user ", info.st_uid, ", expected ",
                               geteuid()));
  }
  if (info.st_size > max_bytes) {
    return Refuse(ErrorReason::kStorage, path,
                  absl::StrCat("found ", info.st_size,
                               " bytes, expected at most ", max_bytes));
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = read(fd, bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Refuse(ErrorReason::kStorage, path,
                    got < 0 ? strerror(errno) : "grew shorter meanwhile");
    }
    have += static_cast<size_t>(got);
  }
  return bytes;
}

constexpr int kToRead = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;

}  // namespace

absl::StatusOr<std::string> ReadPrivateFile(const OpenFolder& folder,
                                            const std::string& name,
                                            int64_t max_bytes) {
  return ReadAndClose(openat(folder.fd(), name.c_str(), kToRead),
                      folder.PathOf(name), max_bytes);
}

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path,
                                            int64_t max_bytes) {
  return ReadAndClose(open(path.c_str(), kToRead), path, max_bytes);
}

absl::Status ReplacePrivateFile(const OpenFolder& folder,
                                const std::string& name,
                                absl::string_view bytes) {
  const std::string fresh = absl::StrCat(name, ".new");
  const std::string shown = folder.PathOf(fresh);
  // A new file each time: what a crash left there may have another mode.
  unlinkat(folder.fd(), fresh.c_str(), 0);
  const int fd =
      openat(folder.fd(), fresh.c_str(),
             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return Refuse(ErrorReason::kStorage, shown, strerror(errno));
  absl::Status status = WriteWhole(fd, bytes, shown);
  if (status.ok() && fsync(fd) != 0) {
    status = Refuse(ErrorReason::kStorage, shown, strerror(errno));
  }
  close(fd);
  if (status.ok() &&
      renameat(folder.fd(), fresh.c_str(), folder.fd(), name.c_str()) != 0) {
    status =
        Refuse(ErrorReason::kStorage, folder.PathOf(name), strerror(errno));
  }
  if (!status.ok()) {
    unlinkat(folder.fd(), fresh.c_str(), 0);
    return status;
  }
  // The name of a new file lasts once its folder is on the disk.
  if (fsync(folder.fd()) == 0) return status;
  return Refuse(ErrorReason::kStorage, folder.path(), strerror(errno));
}

}  // namespace kiln
