#include "server/folder_trust.h"

#include <grp.h>
#include <pwd.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace kiln {
namespace {

bool HasOnlyMember(const group& group, absl::string_view name) {
  for (char** member = group.gr_mem; *member != nullptr; ++member)
    if (*member != name) return false;
  return true;
}

// Where each user has a group of that name, folders are often made with the group's
// write bit, which then lets nobody else in.
bool IsOwnersGroup(const std::string& path, const struct stat& found) {
  if (getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) >= 0)
    return false;  // the bit may stand for a user of the list
  std::array<char, 16384> of_user, of_group;
  struct passwd user = {};
  struct passwd* owner = nullptr;
  struct group named = {};
  struct group* group = nullptr;
  return getpwuid_r(found.st_uid, &user, of_user.data(), of_user.size(),
                    &owner) == 0 &&
         owner != nullptr &&
         getgrgid_r(found.st_gid, &named, of_group.data(), of_group.size(),
                    &group) == 0 &&
         group != nullptr && absl::string_view(user.pw_name) == named.gr_name &&
         HasOnlyMember(named, user.pw_name);
}

}  // namespace

bool IsOwnOrRoots(uid_t user) {
  struct stat top = {};
  return user == geteuid() || user == 0 ||
         (stat("/", &top) == 0 && user == top.st_uid);
}

std::string HowOthersMayChange(const std::string& path,
                               const struct stat& found) {
  if (!IsOwnOrRoots(found.st_uid)) {
    return absl::StrCat("owned by user ", found.st_uid, ", expected ",
                        geteuid());
  }
  const bool all = (found.st_mode & S_IWOTH) != 0;
  const bool group = (found.st_mode & S_IWGRP) != 0;
  if ((found.st_mode & S_ISVTX) != 0 || (!all && !group)) return "";
  if (!all && IsOwnersGroup(path, found)) return "";
  return absl::StrFormat("mode %04o, which others may write",
                         static_cast<int>(found.st_mode & 07777));
}

}  // namespace kiln
