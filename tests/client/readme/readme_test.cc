// The programs that README.md shows are whole: they compile, and what they
// print is what they say.

#include <cstdlib>
#include <filesystem>
#include <string>

#include "client/corpus_runner/private_daemon.h"
#include "gtest/gtest.h"
#include "tests/support/run_program.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

std::string Program(const std::string& path) {
  return std::filesystem::absolute(path).string();
}

TEST(Readme, ItsProgramsRunThroughADaemon) {
  ShortFolder folder;
  const auto daemon =
      PrivateDaemon::Start({.kilnd = Program("server/kilnd"),
                            .worker = Program("compiler/kiln-worker"),
                            .folder = folder.path(),
                            .workers = 1});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  setenv("KILN_SOCKET", (*daemon)->socket().c_str(), 1);
  const ProgramRun cpp =
      RunProgram({Program("tests/client/readme/readme_cpp")});
  EXPECT_EQ(cpp.exit_code, 0) << cpp.err;
  EXPECT_EQ(cpp.out, "0 0 0 0 1 2 3 4 ");
  const ProgramRun c = RunProgram({Program("tests/client/readme/readme_c")});
  EXPECT_EQ(c.exit_code, 0) << c.err;
  EXPECT_EQ(c.out, "0 0 1 2\n");
}

TEST(Readme, ItsProgramsSayWhyTheyDoNothing) {
  setenv("KILN_SOCKET", "/nowhere/kilnd.sock", 1);
  for (const char* program :
       {"tests/client/readme/readme_cpp", "tests/client/readme/readme_c"}) {
    const ProgramRun run = RunProgram({Program(program)});
    EXPECT_EQ(run.exit_code, 1) << program;
    EXPECT_NE(run.err.find("/nowhere/kilnd.sock"), std::string::npos)
        << program << run.err;
  }
}

}  // namespace
}  // namespace kiln
