// The rules of who may do what, read again from their file.
#include "server/access_file.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "server/access/open_folder.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

std::string Rule(const std::string& who) {
  return absl::StrCat("[[access]]\nwho = \"", who,
                      "\"\nrole = \"reader\"\nnamespaces = [\"team-a\"]\n");
}

class Access : public testing::Test {
 protected:
  Access() { Write(Rule("cert:a")); }

  void Write(const std::string& text) {
    // A new file each time: the clock of a file system may stand still for a moment.
    const std::string next = absl::StrCat(path_, ".", ++files_);
    std::ofstream(next) << text;
    ASSERT_EQ(rename(next.c_str(), path_.c_str()), 0);
  }
  std::string Audit() const {
    std::ifstream in(absl::StrCat(folder_.path(), "/audit.log"));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int AuditLines(absl::string_view outcome) const {
    std::ifstream in(absl::StrCat(folder_.path(), "/audit.log"));
    int lines = 0;
    for (std::string line; std::getline(in, line);)
      lines +=
          absl::StrContains(
              line, "\"who\":\"config\",\"what\":\"replace access rules\"") &&
          absl::StrContains(line, absl::StrCat("\"outcome\":\"", outcome));
    return lines;
  }

  const ShortFolder folder_;
  const std::string path_ = absl::StrCat(folder_.path(), "/kilnd.toml");
  int files_ = 0;
  const RealClock clock_;
  const std::unique_ptr<AuditLog> audit_ =
      *AuditLog::Open(*OpenFolder::Open(folder_.path()), clock_);
  std::vector<std::string> taken_;  // whom each set of rules names
};

TEST_F(Access, ANewFileIsTakenAndABadOneKeepsTheRulesBefore) {
  const AccessRule first = {"cert:a", {Role::kReader, {"team-a"}}};
  AccessFile file(path_, {first}, *audit_, [this](const auto& rules) {
    std::string who;
    for (const AccessRule& rule : rules) absl::StrAppend(&who, rule.who, " ");
    taken_.push_back(who);
  });
  file.Look();
  EXPECT_TRUE(taken_.empty());

  Write(Rule("cert:a") + Rule("uid:1000"));
  file.Look();
  file.Look();
  EXPECT_EQ(taken_, std::vector<std::string>{"cert:a uid:1000 "});
  EXPECT_EQ(AuditLines("OK"), 1);

  // Half written, a rule that is none, a word that is not known, and gone.
  for (const std::string& bad :
       {Rule("cert:a").substr(0, 30), Rule("nobody"),
        absl::StrCat("[listen]\nsockt = \"x\"\n", Rule("cert:b"))}) {
    Write(bad);
    const int before = AuditLines("BAD_OPTION");
    file.Look();
    file.Look();
    EXPECT_EQ(AuditLines("BAD_OPTION"), before + 1) << bad;
  }
  ASSERT_EQ(remove(path_.c_str()), 0);
  file.Look();
  EXPECT_EQ(AuditLines("BAD_OPTION"), 4) << Audit();
  EXPECT_EQ(taken_.size(), 1u);

  // Other words, and rules that are in force already, are nothing new.
  Write(absl::StrCat("[log]\nlevel = \"error\"\n", Rule("cert:a"),
                     Rule("uid:1000")));
  file.Look();
  EXPECT_EQ(taken_.size(), 1u);
  EXPECT_EQ(AuditLines("OK"), 1);
  Write("");
  file.Look();
  ASSERT_EQ(taken_.size(), 2u);
  EXPECT_EQ(taken_[1], "");
  EXPECT_EQ(AuditLines("OK"), 2);
}

}  // namespace
}  // namespace kiln
