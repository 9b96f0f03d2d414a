#ifndef KILN_TESTS_SUPPORT_TEST_DAEMON_H_
#define KILN_TESTS_SUPPORT_TEST_DAEMON_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "proto/compile_service.pb.h"
#include "server/config.h"
#include "server/daemon.h"
#include "tests/support/short_folder.h"

namespace kiln {

// A configuration for tests: everything below `folder`, the fake worker, two of
// them.
Config TestConfig(const std::string& folder);

// A request whose only nodes are these operators, over one input whose size is
// the symbol s0: orders for the fake worker.
wire::CompileRequest FakeRequest(const std::vector<std::string>& ops,
                                 int64_t s0 = 8);

// A sound request of about `bytes` bytes.
wire::CompileRequest RequestOfBytes(int bytes);

// What looks for the request's artifact.
wire::LookupRequest LookupFor(const wire::CompileRequest& request);

// What one Compile call gave.
struct CompileAnswer {
  absl::Status status;  // with its reason, from the trailer
  wire::CompileResult result;
  std::vector<wire::Progress> progress;
};

// Calls over one channel of its own to a Unix socket. Thread-safe.
class TestClient {
 public:
  explicit TestClient(const std::string& socket);

  CompileAnswer Compile(const wire::CompileRequest& request,
                        absl::Duration timeout = absl::Seconds(60));
  absl::StatusOr<wire::LookupReply> Lookup(const wire::LookupRequest& request);

  // Sends raw bytes as the request of `method` ("/kiln.wire.Service/Method").
  absl::Status CallRaw(const std::string& method, const std::string& bytes);

  // For calls that are not here: daemon_stubs.h.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

// `status` of a call as ours, with the reason of its trailer.
absl::Status FromGrpc(const grpc::ClientContext& context,
                      const grpc::Status& status);

// A whole daemon in this process, behind a real socket, with real workers.
class TestDaemon {
 public:
  TestDaemon() : TestDaemon([](Config&) {}) {}
  template <typename Change>
  explicit TestDaemon(Change change, std::shared_ptr<const Clock> clock =
                                         std::make_shared<RealClock>())
      : clock_(std::move(clock)) {
    Config config = TestConfig(folder_.path());
    change(config);
    Start(config);
  }

  Daemon& daemon() { return *daemon_; }
  TestClient& client() { return *client_; }
  int64_t count(Count count) const { return daemon_->counters().Get(count); }

  // Lets fake workers behind `fake.gate.NAME` go on.
  void OpenGate(const std::string& name);
  // Fake workers started from now on say that their compiler has this version.
  void ReplaceToolchain(const std::string& version);
  // Ends the daemon and starts it again on the same folder.
  void Restart();
  // Ends it; the folder stays.
  void Stop() { daemon_.reset(); }

  const Config& config() const { return config_; }

 private:
  void Start(const Config& config);

  ShortFolder folder_;
  const std::shared_ptr<const Clock> clock_;
  Config config_;
  std::unique_ptr<Daemon> daemon_;
  std::unique_ptr<TestClient> client_;
};

// The daemon's cache holds nothing.
void ExpectEmpty(TestDaemon& d);

// The daemon is well and has kept nothing of what came before: it answers, its
// cache is empty, and `good` is compiled, stored and found.
void ExpectWellAndEmpty(TestDaemon& d, const wire::CompileRequest& good =
                                           FakeRequest({"fake.salt.good"}));

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_TEST_DAEMON_H_
