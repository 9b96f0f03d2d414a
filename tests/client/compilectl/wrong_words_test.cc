// What the program says of words that fit nothing there is, or are not allowed.

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/compilectl/relu_case.h"
#include "tests/client/compilectl/run_compilectl.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

using Words = std::vector<std::string>;
using Json = nlohmann::json;

class WrongWords : public testing::Test {
 protected:
  ProgramRun Ask(Words words) {
    words.insert(words.end(), {"--socket", daemon_.config().socket});
    return RunCompilectl(std::move(words));
  }
  Json Keys() {
    const ProgramRun run = Ask({"keys", "-o", "json"});
    return Json::parse(run.out, nullptr, /*throw=*/false)["keys"];
  }

  TestDaemon daemon_;
};

TEST_F(WrongWords, AFileWithoutACaseIsNotExplained) {
  const std::string empty = testing::TempDir() + "/empty.jsonl";
  std::ofstream{empty};
  const ProgramRun run = Ask({"explain", empty});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.err.find(empty + ": has no case"), std::string::npos)
      << run.err;
}

TEST_F(WrongWords, ACaseThatIsNotThereIsToldWithThoseThatAre) {
  const std::string file = WriteReluCase(testing::TempDir());
  const ProgramRun run = Ask({"tune", file + ":relu"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.err.find(file + ": has no case \"relu\", expected one of r\n"),
            std::string::npos)
      << run.err;
}

TEST_F(WrongWords, AKeyThatIsNotKnownIsNotRevokedUnlessThatIsMeant) {
  const std::string stranger(16, 'a');
  const ProgramRun refused = Ask({"keys", "revoke", stranger});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.out, "");
  const std::string own = Keys()[0]["key_id"];
  EXPECT_NE(refused.err.find(stranger + ": not known here; there are " + own),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(Ask({"keys", "revoke", stranger, "--unknown"}).out,
            "revoked " + stranger + "\n");
  EXPECT_EQ(Keys().size(), 2);
}

TEST_F(WrongWords, WhoRevokesTheDaemonsOwnKeyHearsWhatItCostsAndWhatToRun) {
  const std::string own = Keys()[0]["key_id"];
  const ProgramRun run = Ask({"keys", "revoke", own});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::string now = Keys()[0]["key_id"];
  EXPECT_NE(now, own);
  for (const std::string& said :
       {"revoked " + own, now + " signs now in all namespaces",
        "what " + own + " signed is refused",
        std::string("run `compilectl scrub`")}) {
    EXPECT_NE(run.out.find(said), std::string::npos) << run.out;
  }
}

TEST_F(WrongWords, ClearsNoJobThatIsNotInQuarantine) {
  const ProgramRun run = Ask({"quarantine", "--clear", "abc"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.err.find("no job's key begins with abc"), std::string::npos)
      << run.err;
  EXPECT_EQ(Ask({"quarantine", "--clear-all"}).exit_code, 0);
}

TEST_F(WrongWords, SaysHowLongATokenMayLive) {
  const ProgramRun run = Ask({"tokens", "add", "ci", "--for", "500d"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("at most 366d"), std::string::npos) << run.err;
}

TEST(CompilectlVersion, IsPrintedWithoutADaemon) {
  const ProgramRun run = RunCompilectl({"--version"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out.find("compilectl "), 0) << run.out;
}

}  // namespace
}  // namespace kiln
