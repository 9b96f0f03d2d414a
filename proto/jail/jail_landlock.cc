#include "proto/jail/jail_landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The header of Debian 12 is of Linux 6.1; what came later, in the kernel's
// words (include/uapi/linux/landlock.h).
struct RulesetAttributes {
  uint64_t handled_access_fs = 0;
  uint64_t handled_access_net = 0;  // since version 4
  uint64_t scoped = 0;              // since version 6
};
constexpr uint64_t kRefer = uint64_t{1} << 13;     // since version 2
constexpr uint64_t kTruncate = uint64_t{1} << 14;  // since version 3
constexpr uint64_t kIoctlDev = uint64_t{1} << 15;  // since version 5
constexpr uint64_t kAllTcp = 3;
constexpr uint64_t kAllScopes = 3;

constexpr uint64_t kReadFile =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE;
constexpr uint64_t kRead = kReadFile | LANDLOCK_ACCESS_FS_READ_DIR;
// All of version 1: bits 0 to 12.
constexpr uint64_t kFirstRights = (uint64_t{1} << 13) - 1;

int LandlockVersion() {
  return static_cast<int>(syscall(SYS_landlock_create_ruleset, nullptr, 0,
                                  LANDLOCK_CREATE_RULESET_VERSION));
}

uint64_t RightsOf(int version) {
  uint64_t rights = kFirstRights;
  if (version >= 2) rights |= kRefer;
  if (version >= 3) rights |= kTruncate;
  if (version >= 5) rights |= kIoctlDev;
  return rights;
}

absl::Status Allow(int ruleset, const std::string& path, uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  struct stat found = {};
  const bool folder = fstat(fd, &found) == 0 && S_ISDIR(found.st_mode);
  const uint64_t of_files =
      kReadFile | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate | kIoctlDev;
  landlock_path_beneath_attr rule = {};
  rule.allowed_access = folder ? rights : rights & of_files;
  rule.parent_fd = fd;
  const long added = syscall(SYS_landlock_add_rule, ruleset,
                             LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  const int error = errno;
  close(fd);
  if (added == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(error, absl::StrCat("landlock ", path));
}

absl::Status AllowView(int ruleset, const JailView& view, uint64_t all) {
  for (const std::string& path : view.readable) {
    RETURN_IF_ERROR(Allow(ruleset, path, kRead));
  }
  for (const std::string& path : view.devices) {
    RETURN_IF_ERROR(Allow(ruleset, path, all & ~LANDLOCK_ACCESS_FS_EXECUTE));
  }
  for (const std::string& path : view.writable) {
    RETURN_IF_ERROR(Allow(ruleset, path, all));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> OpenRuleset(const JailView& view) {
  const int version = LandlockVersion();
  if (version < 1) return absl::UnimplementedError("landlock: not enabled");
  RulesetAttributes attributes;
  attributes.handled_access_fs = RightsOf(version);
  size_t size = sizeof(attributes.handled_access_fs);
  if (version >= 4) {
    attributes.handled_access_net = kAllTcp;
    size = offsetof(RulesetAttributes, scoped);
  }
  if (version >= 6) {
    attributes.scoped = kAllScopes;
    size = sizeof(attributes);
  }
  const int ruleset = static_cast<int>(
      syscall(SYS_landlock_create_ruleset, &attributes, size, 0));
  if (ruleset < 0) return absl::ErrnoToStatus(errno, "landlock");
  const absl::Status status =
      AllowView(ruleset, view, attributes.handled_access_fs);
  if (status.ok()) return ruleset;
  close(ruleset);
  return status;
}

absl::Status AllowOwnProcess(int ruleset) {
  const uint64_t write = LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;
  return Allow(ruleset, "/proc/self",
               kRead | (write & RightsOf(LandlockVersion())));
}

absl::Status KeepTo(int ruleset) {
  const long kept = syscall(SYS_landlock_restrict_self, ruleset, 0);
  const int error = errno;
  close(ruleset);
  return kept == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, "landlock");
}

}  // namespace kiln
