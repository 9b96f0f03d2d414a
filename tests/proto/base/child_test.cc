#include "proto/base/child.h"

#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

using testing::HasSubstr;

ChildOptions Shell(const std::string& script) {
  ChildOptions options;
  options.program = "/bin/sh";
  options.args = {"-c", script};
  options.env = {"PATH=/usr/bin:/bin", "WORD=kiln"};
  options.output_file = absl::StrCat(testing::TempDir(), "/said");
  return options;
}

std::string Said() {
  std::ostringstream text;
  text << std::ifstream(absl::StrCat(testing::TempDir(), "/said")).rdbuf();
  return text.str();
}

// A pipe whose write end only children hold: its end tells of theirs.
struct Leash {
  Leash() { EXPECT_EQ(pipe(ends), 0); }
  ~Leash() { close(ends[0]); }
  void KeepReadEndOnly() { close(ends[1]); }
  bool AllHoldersGone() {
    pollfd entry = {.fd = ends[0], .events = 0, .revents = 0};
    return poll(&entry, 1, 60'000) == 1 && (entry.revents & POLLHUP) != 0;
  }
  int ends[2];
};

TEST(Child, FindsItsFolderAndEnvironmentAndNothingElseOpen) {
  ChildOptions options =
      Shell("pwd; env | grep -v PWD | sort; ls /proc/self/fd");
  options.folder = "/usr";
  const int extra = dup(0);  // not close-on-exec
  absl::StatusOr<Child> child = Child::Start(options);
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(HowItEnded(child->Wait()), "exited with 0");
  close(extra);
  // 3 is the folder that ls reads.
  EXPECT_EQ(Said(), "/usr\nPATH=/usr/bin:/bin\nWORD=kiln\n0\n1\n2\n3\n");
}

TEST(Child, DescriptorsMayTradePlaces) {
  int a[2];
  int b[2];
  ASSERT_EQ(pipe(a), 0);
  ASSERT_EQ(pipe(b), 0);
  ChildOptions options = Shell("read word <&3; echo $word >&4");
  options.descriptors = {{.ours = a[0], .childs = 3},
                         {.ours = b[1], .childs = 4}};
  // Whichever numbers they have here, even each other's.
  ASSERT_EQ(write(a[1], "kiln\n", 5), 5);
  absl::StatusOr<Child> child = Child::Start(options);
  ASSERT_TRUE(child.ok()) << child.status();
  char word[8] = {};
  EXPECT_EQ(read(b[0], word, sizeof(word)), 5);
  EXPECT_STREQ(word, "kiln\n");
  EXPECT_EQ(HowItEnded(child->Wait()), "exited with 0");
  for (const int fd : {a[0], a[1], b[0], b[1]}) close(fd);
}

TEST(Child, EndTakesItsOwnChildrenWithIt) {
  Leash leash;
  ChildOptions options = Shell("sleep 1000 & sleep 1000");
  options.descriptors = {{.ours = leash.ends[1], .childs = 3}};
  absl::StatusOr<Child> child = Child::Start(options);
  ASSERT_TRUE(child.ok()) << child.status();
  leash.KeepReadEndOnly();
  EXPECT_EQ(HowItEnded(child->End()), "ended by signal 9 (Killed)");
  EXPECT_TRUE(leash.AllHoldersGone());
}

TEST(Child, EndTakesItsChildrenAlsoWhenItEndedByItself) {
  Leash leash;
  int started[2];
  ASSERT_EQ(pipe(started), 0);
  ChildOptions options = Shell("(exec 4>&-; exec sleep 1000) & exit 3");
  options.descriptors = {{.ours = leash.ends[1], .childs = 3},
                         {.ours = started[1], .childs = 4}};
  absl::StatusOr<Child> child = Child::Start(options);
  ASSERT_TRUE(child.ok()) << child.status();
  leash.KeepReadEndOnly();
  close(started[1]);
  char none = 0;
  EXPECT_EQ(read(started[0], &none, 1), 0);  // both have closed 4
  close(started[0]);
  while (!child->HasEnded()) usleep(1000);
  EXPECT_EQ(HowItEnded(child->End()), "exited with 3");
  EXPECT_TRUE(leash.AllHoldersGone());
  EXPECT_EQ(HowItEnded(child->End()), "exited with 3");
}

TEST(Child, ACompilerEndsWithItsWorkersGroup) {
  // Whoever kills the group, whose leader the worker is, takes it too.
  ChildOptions options =
      Shell("read a b c d group rest < /proc/self/stat; echo $group");
  options.group = ChildGroup::kOurs;
  absl::StatusOr<Child> child = Child::Start(options);
  ASSERT_TRUE(child.ok()) << child.status();
  child->Wait();
  EXPECT_EQ(Said(), absl::StrCat(getpgrp(), "\n"));
}

TEST(Child, ItsProgramIsLookedForFromTheParentsFolder) {
  const std::string link = "a_shell_beside_us";
  std::filesystem::remove(link);
  std::filesystem::create_symlink("/bin/sh", link);
  ChildOptions options;
  options.program = link;
  options.args = {"-c", "exit 0"};
  options.folder = testing::TempDir();
  const absl::StatusOr<Child> child = Child::Start(options);
  std::filesystem::remove(link);
  EXPECT_TRUE(child.ok()) << child.status();
}

TEST(Child, AProgramThatIsNotThereIsNamed) {
  ChildOptions options = Shell("");
  options.program = "/nowhere/program";
  const absl::Status status = Child::Start(options).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/program"));
}

}  // namespace
}  // namespace kiln
