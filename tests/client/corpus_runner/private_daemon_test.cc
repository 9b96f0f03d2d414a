#include "client/corpus_runner/private_daemon.h"

#include <filesystem>

#include "client/compile_client.h"
#include "gtest/gtest.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

PrivateDaemonOptions OptionsIn(const ShortFolder& folder) {
  return {.kilnd = std::filesystem::absolute("server/kilnd"),
          .worker = std::filesystem::absolute("tests/support/fake_worker"),
          .folder = folder.path(),
          .workers = 1};
}

TEST(PrivateDaemon, ServesAsLongAsItLives) {
  ShortFolder folder;
  DaemonAddress address;
  {
    const auto daemon = PrivateDaemon::Start(OptionsIn(folder));
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    address.socket = (*daemon)->socket();
    EXPECT_TRUE(CompileClient::Connect(address).ok());
  }
  EXPECT_FALSE(CompileClient::Connect(address).ok());
}

TEST(PrivateDaemon, OneThatCannotStartSaysWhy) {
  ShortFolder folder;
  PrivateDaemonOptions options = OptionsIn(folder);
  options.worker_environment = {"bad\"quote"};
  const auto daemon = PrivateDaemon::Start(options);
  ASSERT_FALSE(daemon.ok());
  EXPECT_NE(daemon.status().message().find("kilnd.toml"),
            absl::string_view::npos)
      << daemon.status();
}

}  // namespace
}  // namespace kiln
