#include "server/folder_trust.h"

#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

constexpr uid_t kNobody = 65534;

std::string How(uid_t user, gid_t group, mode_t mode) {
  struct stat found = {};
  found.st_uid = user;
  found.st_gid = group;
  found.st_mode = S_IFDIR | mode;
  return HowOthersMayChange("/", found);
}

TEST(FolderTrust, IsInOnesOwnFoldersAndRoots) {
  EXPECT_EQ(How(geteuid(), getegid(), 0755), "");
  EXPECT_EQ(How(0, 0, 0755), "");
  if (geteuid() == kNobody) return;
  EXPECT_TRUE(absl::StrContains(How(kNobody, getegid(), 0700),
                                "owned by user 65534, expected "));
}

TEST(FolderTrust, IsInNoneThatOthersMayWriteUnlessSticky) {
  EXPECT_EQ(How(0, 0, 01777), "");
  EXPECT_EQ(How(0, 0, 0777), "mode 0777, which others may write");
  EXPECT_EQ(How(0, 0, 0757), "mode 0757, which others may write");
  EXPECT_EQ(How(geteuid(), kNobody - 1, 02775),
            "mode 2775, which others may write");
  EXPECT_EQ(How(geteuid(), kNobody - 1, 01775), "");
}

TEST(FolderTrust, AGroupThatIsItsOwnersAloneIsNobodyElse) {
  EXPECT_EQ(How(0, 0, 0775), "");
  EXPECT_EQ(How(0, 1, 0775), "mode 0775, which others may write");
}

// The group's bit then tells what users of the list may do.
TEST(FolderTrust, AnAccessListIsSomebodyElse) {
  if (geteuid() != 0) return;  // whose group is known to be root's alone
  const ShortFolder folder;
  struct stat found = {};
  ASSERT_EQ(chmod(folder.path().c_str(), 0770), 0);
  ASSERT_EQ(stat(folder.path().c_str(), &found), 0);
  EXPECT_EQ(HowOthersMayChange(folder.path(), found), "");
  struct Row {
    uint16_t tag, may;
    uint32_t who;
  };
  struct {
    uint32_t version = 2;
    // The owner, a user, the group, the mask and others.
    Row rows[5] = {{0x01, 7, ~0u},
                   {0x02, 7, kNobody},
                   {0x04, 5, ~0u},
                   {0x10, 7, ~0u},
                   {0x20, 0, ~0u}};
  } list;
  const int set = setxattr(folder.path().c_str(), "system.posix_acl_access",
                           &list, sizeof(list), 0);
  if (set != 0 && errno == EOPNOTSUPP) return;  // no lists on this file system
  ASSERT_EQ(set, 0) << errno;
  ASSERT_EQ(stat(folder.path().c_str(), &found), 0);
  EXPECT_EQ(HowOthersMayChange(folder.path(), found),
            "mode 0770, which others may write");
}

}  // namespace
}  // namespace kiln
