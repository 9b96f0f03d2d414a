#include "server/socket_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

constexpr uid_t kNobody = 65534;

std::string In(const ShortFolder& folder, const std::string& name) {
  return folder.path() + "/" + name;
}

TEST(SocketFolder, IsMadeForItsUserAlone) {
  const ShortFolder folder;
  ASSERT_TRUE(TakeSocketFolder(In(folder, "kiln-0/kilnd.sock")).ok());
  struct stat made = {};
  ASSERT_EQ(stat(In(folder, "kiln-0").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0700u);
  EXPECT_TRUE(TakeSocketFolder(In(folder, "kiln-0/kilnd.sock")).ok());
  EXPECT_TRUE(TakeSocketFolder("/tmp/kilnd.sock").ok());  // sticky, root's
}

TEST(SocketFolder, OneThatAnotherUserMadeFirstIsRefused) {
  const ShortFolder folder;
  const std::string taken = In(folder, "kiln-0");
  ASSERT_EQ(mkdir(taken.c_str(), 0777), 0);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(taken.c_str(), kNobody, kNobody), 0);
    const absl::Status refused = TakeSocketFolder(taken + "/kilnd.sock");
    EXPECT_EQ(ReasonOf(refused), ErrorReason::kPermission);
    EXPECT_TRUE(absl::StrContains(refused.message(), "owned by user 65534"))
        << refused;
    const std::string link = In(folder, "link");
    std::filesystem::create_symlink("/tmp", link);
    ASSERT_EQ(lchown(link.c_str(), kNobody, kNobody), 0);
    EXPECT_EQ(ReasonOf(TakeSocketFolder(link + "/kilnd.sock")),
              ErrorReason::kPermission);
    ASSERT_EQ(chown(taken.c_str(), 0, 0), 0);
  }
  ASSERT_EQ(chmod(taken.c_str(), 0777), 0);
  EXPECT_EQ(ReasonOf(TakeSocketFolder(taken + "/kilnd.sock")),
            ErrorReason::kPermission);
}

}  // namespace
}  // namespace kiln
