#include "tests/support/daemon_process.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/steady_time.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/health_client.h"
#include "tests/support/worker_memory.h"

namespace kiln {

DaemonProcess::DaemonProcess(absl::string_view toml, absl::string_view listen,
                             const std::string& signing_key) {
  const std::string runfiles = absl::StrCat(getenv("TEST_SRCDIR"), "/kiln/");
  std::filesystem::create_directory(data());
  std::filesystem::permissions(data(), std::filesystem::perms::owner_all);
  if (!signing_key.empty())
    std::filesystem::copy(signing_key, this->signing_key());
  std::ofstream(folder_.path() + "/kilnd.toml")
      << "[listen]\nsocket = \"" << socket() << "\"\n"
      << listen << "[storage]\ndata_folder = \"" << data()
      << "\"\n[workers]\ncount = 2\nmemory_bytes = " << kTestWorkerMemoryBytes
      << "\nprogram = \"" << runfiles << "tests/support/fake_worker\"\n"
      << toml;
  ChildOptions options;
  options.program = runfiles + "server/kilnd";
  options.args = {"--config", folder_.path() + "/kilnd.toml"};
  options.env = {"PATH=/usr/bin:/bin", "HOME=" + folder_.path()};
  options.output_file = folder_.path() + "/log";
  auto started = Child::Start(options);
  EXPECT_TRUE(started.ok()) << started.status();
  child_.emplace(*std::move(started));
  while (AskHealth("unix:" + socket()) != "SERVING") {
    if (!child_->HasEnded()) continue;
    ADD_FAILURE() << std::ifstream(options.output_file).rdbuf();
    break;
  }
  client_ = std::make_unique<TestClient>(socket());
}

int64_t DaemonProcess::Count(absl::string_view name) {
  grpc::ClientContext context;
  wire::StatsReply stats;
  EXPECT_TRUE(AdminStub(*client_)->Stats(&context, {}, &stats).ok());
  for (const wire::Counter& counter : stats.counters())
    if (counter.name() == name) return counter.value();
  ADD_FAILURE() << "no counter " << name;
  return -1;
}

void DaemonProcess::Await(absl::string_view name, int64_t due) {
  const SteadyTime patience = After(SteadyNow(), absl::Seconds(60));
  while (Count(name) < due) {
    ASSERT_LT(SteadyNow(), patience) << name << ": " << Count(name);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void DaemonProcess::OpenGate(const std::string& name) {
  std::ofstream(absl::StrCat(data(), "/scratch/gate_", name)) << "open";
}

}  // namespace kiln
