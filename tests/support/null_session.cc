#include "tests/support/null_session.h"

#include <filesystem>

#include "gtest/gtest.h"
#include "tests/support/test_daemon.h"
#include "tests/support/worker_memory.h"

namespace kiln {

SessionOptions NullSessionOptions(const std::string& socket) {
  SessionOptions options;
  options.daemon.socket = socket;
  options.daemon.answer_timeout = absl::Seconds(60);
  options.device.kind = DeviceKind::kNull;
  options.fallback = Fallback::kLocalWorker;
  options.local_worker = {
      .program = std::filesystem::absolute("tests/support/fake_worker"),
      .scratch_root = testing::TempDir(),
      .memory_bytes = kTestWorkerMemoryBytes};
  return options;
}

CompileReport ReportOf(const std::shared_ptr<Session>& session,
                       const std::string& order) {
  const auto callable = session->Compile(FakeRequest({order}).graph());
  EXPECT_TRUE(callable.ok()) << callable.status();
  return callable.ok() ? (*callable)->report() : CompileReport();
}

}  // namespace kiln
