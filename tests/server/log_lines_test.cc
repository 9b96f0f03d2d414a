// What a daemon writes to its log of one compile.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "proto/base/log.h"
#include "proto/base/mutex.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

// Takes the log of this process while it lives. Thread-safe.
class LogOfDaemon {
 public:
  LogOfDaemon() {
    EXPECT_TRUE(ConfigureLog({.sink = [this](absl::string_view line) {
                  MutexLock lock(&mu_);
                  lines_.emplace_back(line);
                }}).ok());
  }
  ~LogOfDaemon() { EXPECT_TRUE(ConfigureLog({}).ok()); }

  // Those of the event `name`.
  std::vector<std::string> Lines(absl::string_view name) {
    MutexLock lock(&mu_);
    std::vector<std::string> found;
    for (const std::string& line : lines_) {
      if (absl::StrContains(line, name)) found.push_back(line);
    }
    return found;
  }

 private:
  Mutex mu_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mu_);
};

// As clients do: a lookup by digest, and on a miss the graph.
TEST(LogLines, ACompileSaysOnceThatTheCacheHadItNot) {
  LogOfDaemon log;
  {
    TestDaemon d;
    const wire::CompileRequest request = FakeRequest({"fake.salt.a"});
    const auto missed = d.client().Lookup(LookupFor(request));
    ASSERT_TRUE(missed.ok()) << missed.status();
    EXPECT_EQ(missed->outcome(), wire::LookupReply::OUTCOME_MISS);
    ASSERT_TRUE(d.client().Compile(request).status.ok());
    ASSERT_TRUE(d.client().Compile(request).status.ok());  // a hit
  }
  const std::vector<std::string> lines = log.Lines("cache.lookup");
  ASSERT_EQ(lines.size(), 1) << absl::StrJoin(lines, "\n");
  EXPECT_TRUE(absl::StrContains(lines[0], "outcome=miss")) << lines[0];
  EXPECT_TRUE(absl::StrContains(lines[0], "key=")) << lines[0];
}

}  // namespace
}  // namespace kiln
