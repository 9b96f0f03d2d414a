#include <cstdlib>
#include <filesystem>
#include <string>

#include "client/c_api/kiln.h"
#include "client/corpus_runner/private_daemon.h"
#include "gtest/gtest.h"
#include "tests/support/short_folder.h"

// The program of client/c_api/example.c, compiled as C, against real workers.

namespace kiln {
namespace {

std::string Program(const std::string& path) {
  return std::filesystem::absolute(path).string();
}

TEST(CApi, TheExampleRunsThroughADaemon) {
  ShortFolder folder;
  const auto daemon =
      PrivateDaemon::Start({.kilnd = Program("server/kilnd"),
                            .worker = Program("compiler/kiln-worker"),
                            .folder = folder.path(),
                            .workers = 1});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  const std::string command =
      Program("client/c_api/example") + " " + (*daemon)->socket();
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(CApi, TheExampleRunsWithAWorkerOfItsOwn) {
  const std::string command = Program("client/c_api/example") + " --local " +
                              Program("compiler/kiln-worker");
  EXPECT_EQ(std::system(command.c_str()), 0);
}

// Each time after the first the answer comes from the cache, so that the end
// comes close upon the start. A signal would be in std::system's status.
TEST(CApi, AProgramMayEndWithEverythingAlive) {
  ShortFolder folder;
  const auto daemon =
      PrivateDaemon::Start({.kilnd = Program("server/kilnd"),
                            .worker = Program("compiler/kiln-worker"),
                            .folder = folder.path(),
                            .workers = 1});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  // What is alive at the end is no leak to an address sanitizer.
  const std::string command = "ASAN_OPTIONS=detect_leaks=0 " +
                              Program("tests/client/c_api/exit_with_callable") +
                              " " + (*daemon)->socket();
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(std::system(command.c_str()), 0) << "run " << i;
  }
}

TEST(CApi, ASessionWithoutADaemonIsAnErrorWithWords) {
  KilnSessionOptions options = {};
  options.struct_size = sizeof(options);
  options.socket = "/nowhere/kilnd.sock";
  KilnSession* session = nullptr;
  KilnStatus* status = kiln_session_open(&options, &session);
  ASSERT_NE(status, nullptr);
  EXPECT_EQ(kiln_status_code(status), 14);  // UNAVAILABLE
  EXPECT_NE(std::string(kiln_status_message(status)).find("/nowhere"),
            std::string::npos);
  kiln_status_free(status);
  EXPECT_EQ(session, nullptr);
}

TEST(CApi, AGraphThatIsWrongComesOutOfCompile) {
  KilnGraph* graph = nullptr;
  KilnStatus* status = kiln_graph_parse("\xff\xff", 2, &graph);
  ASSERT_NE(status, nullptr);
  EXPECT_STREQ(kiln_status_reason(status), "MALFORMED_GRAPH");
  kiln_status_free(status);
  EXPECT_EQ(kiln_abi_version(), KILN_ABI_VERSION);
}

}  // namespace
}  // namespace kiln
