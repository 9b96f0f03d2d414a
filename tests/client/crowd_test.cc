// Many calls of one caller, and whether others are heard beside them.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/daemon_channel.h"
#include "gtest/gtest.h"
#include "proto/admin_service.grpc.pb.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/compile_service.grpc.pb.h"
#include "server/admin_service.h"
#include "server/worker_pool.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_ca.h"
#include "tests/support/test_daemon.h"
#include "tests/support/tls_daemons.h"

namespace kiln {
namespace {

constexpr int kRanks = 1024;

template <typename Condition>
void Await(Condition holds) {
  while (!holds()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

wire::CompileRequest OrderIn(const std::string& cache_namespace,
                             const std::vector<std::string>& ops) {
  wire::CompileRequest request = FakeRequest(ops);
  request.set_cache_namespace(cache_namespace);
  return request;
}

// One Compile call that nobody waits for.
class Call final : public grpc::ClientReadReactor<wire::CompileEvent> {
 public:
  Call(wire::CompileService::Stub& stub, const wire::CompileRequest& request)
      : request_(request) {
    SetDeadline(context_, SteadyIn(absl::Minutes(2)));
    stub.async()->Compile(&context_, &request_, this);
    StartRead(&event_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    told_ = true;
    StartRead(&event_);
  }
  void OnDone(const grpc::Status& status) override {
    refused_ = StatusOfCall(status, context_, "compile");
    done_ = true;
  }
  // Waits on a job, or has ended.
  bool Waits() const { return told_ && !done_; }
  bool IsDone() const { return done_; }
  const absl::Status& status() const { return refused_; }

 private:
  const wire::CompileRequest request_;
  grpc::ClientContext context_;
  wire::CompileEvent event_;
  std::atomic<bool> told_ = false;
  std::atomic<bool> done_ = false;
  absl::Status refused_;
};

// What the network's door lets one connection ask at once.
constexpr int kCallsAConnection = 128;

// A caller by a certificate, over as many connections as `calls` at once take.
class Caller {
 public:
  Caller(TestDaemon& daemon, TestCa& ca, const std::string& name,
         int calls = 1) {
    const TestCa::Files own = ca.Issue(name, name);
    DaemonAddress address;
    address.tcp = absl::StrCat("localhost:", daemon.daemon().tcp_port());
    address.tls = {
        .ca = ca.file(), .certificate = own.certificate, .key = own.key};
    address.public_keys.push_back(SigningKey::Generate()->public_key());
    for (int room = 0; room < calls; room += kCallsAConnection) {
      auto channel = OpenDaemonChannel(address);
      EXPECT_TRUE(channel.ok()) << channel.status();
      stubs_.push_back(wire::CompileService::NewStub(*channel));
    }
  }
  // In turn.
  wire::CompileService::Stub& stub() {
    return *stubs_[next_++ % stubs_.size()];
  }

  absl::Status Compile(const wire::CompileRequest& request) {
    Call call(stub(), request);
    Await([&] { return call.IsDone(); });
    return call.status();
  }

 private:
  std::vector<std::unique_ptr<wire::CompileService::Stub>> stubs_;
  size_t next_ = 0;
};

// An audit log that takes no line while it is full: a pipe. An admin call that
// changes something ends when its line is written.
class FullPipe {
 public:
  FullPipe() = default;
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;
  ~FullPipe() {
    close(reader_);
    close(writer_);
  }

  // The daemon's log, before it starts.
  void TakeThePlaceOf(const std::string& data_folder) {
    std::filesystem::create_directories(data_folder);
    const std::string path = data_folder + "/audit.log";
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    reader_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    writer_ = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(std::min(reader_, writer_), 0);
  }
  void Fill() {
    const std::string page(4096, '.');
    while (write(writer_, page.data(), page.size()) > 0) {
    }
    // A pipe takes what is shorter than a page while a page is not all free.
    while (write(writer_, page.data(), 1) > 0) {
    }
    EXPECT_EQ(errno, EAGAIN);
  }
  void Drain() {
    char bytes[4096];
    while (read(reader_, bytes, sizeof(bytes)) > 0) {
    }
  }

 private:
  int reader_ = -1;
  int writer_ = -1;
};

class Crowd : public testing::Test {
 protected:
  Crowd()
      : ca_(folder_.path(), "ca"),
        server_(ca_.Issue("kilnd.example", "kilnd")),
        daemon_([this](Config& config) {
          audit_.TakeThePlaceOf(config.data_folder);
          OpenTlsDoor(config, server_, ca_);
          config.max_waiting_calls = 2 * kRanks;
          config.access = {
              {"cert:ranks.example", {Role::kSubmitter, {"team-a", "team-b"}}},
              {"cert:other.example", {Role::kSubmitter, {"team-a", "team-b"}}},
              {"cert:nosy.example", {Role::kAdmin, {"team-a"}}}};
        }) {}

  void ExpectTheOperatorIsHeard() {
    wire::JobsReply jobs;
    grpc::ClientContext context;
    SetDeadline(context, SteadyIn(absl::Seconds(60)));
    const grpc::Status heard =
        AdminStub(daemon_.client())->Jobs(&context, {}, &jobs);
    EXPECT_TRUE(heard.ok()) << heard.error_message();
  }

  const ShortFolder folder_;
  TestCa ca_;
  const TestCa::Files server_;
  FullPipe audit_;  // before the daemon, which writes to its end
  TestDaemon daemon_;
};

TEST_F(Crowd, AThousandWaitingRanksOfOneCallerLockNobodyOut) {
  Caller ranks(daemon_, ca_, "ranks.example", kRanks);
  Caller other(daemon_, ca_, "other.example");
  const wire::CompileRequest slow = OrderIn("team-a", {"fake.gate.go"});
  std::deque<Call> calls;
  for (int i = 0; i < kRanks; ++i) calls.emplace_back(ranks.stub(), slow);
  for (Call& call : calls) Await([&] { return call.Waits(); });
  // The caller has its share: half of all places, since nobody else has any.
  EXPECT_EQ(ReasonOf(Caller(daemon_, ca_, "ranks.example").Compile(slow)),
            ErrorReason::kQueueFull);
  // Another is served, in the same namespace and elsewhere.
  for (const char* where : {"team-a", "team-b"}) {
    const absl::Status served =
        other.Compile(OrderIn(where, {"fake.salt.other"}));
    EXPECT_TRUE(served.ok()) << served;
  }
  ExpectTheOperatorIsHeard();
  daemon_.OpenGate("go");
  for (Call& call : calls) {
    Await([&] { return call.IsDone(); });
    EXPECT_TRUE(call.status().ok()) << call.status();
  }
}

TEST_F(Crowd, AThousandJobsOfOneCallerLockNobodyOut) {
  Caller ranks(daemon_, ca_, "ranks.example", kRanks);
  Caller other(daemon_, ca_, "other.example");
  std::deque<Call> calls;
  for (int i = 0; i < kRanks; ++i) {
    calls.emplace_back(
        ranks.stub(),
        OrderIn("team-a", {"fake.gate.go", absl::StrCat("fake.salt.", i)}));
  }
  int waits = 0, refused = 0;
  for (Call& call : calls) {
    Await([&] { return call.Waits() || call.IsDone(); });
    (call.IsDone() ? refused : waits) += 1;
  }
  // Half of the namespace's queue, and what the runners took from it.
  EXPECT_GE(waits, 128);
  EXPECT_LE(waits, 128 + 8);
  EXPECT_EQ(refused, kRanks - waits);
  ExpectTheOperatorIsHeard();
  // One more of another caller is taken, and is the next.
  Call late(other.stub(), OrderIn("team-a", {"fake.salt.late"}));
  Await([&] { return late.Waits() || late.IsDone(); });
  daemon_.OpenGate("go");
  Await([&] { return late.IsDone(); });
  EXPECT_TRUE(late.status().ok()) << late.status();
  for (Call& call : calls) {
    Await([&] { return call.IsDone(); });
    EXPECT_TRUE(call.status().ok() ||
                ReasonOf(call.status()) == ErrorReason::kQueueFull)
        << call.status();
  }
}

TEST_F(Crowd, AThousandUnitsOfOneCallerHoldNobodysFewUp) {
  constexpr int kJobs = 8;
  constexpr int kUnits = 125;  // of each
  Caller ranks(daemon_, ca_, "ranks.example");
  Caller other(daemon_, ca_, "other.example");
  const auto running = [this] {
    wire::JobsReply jobs;
    grpc::ClientContext context;
    EXPECT_TRUE(AdminStub(daemon_.client())->Jobs(&context, {}, &jobs).ok());
    return std::count_if(
        jobs.jobs().begin(), jobs.jobs().end(),
        [](const wire::Job& job) { return job.state() == "running"; });
  };
  std::deque<Call> many;
  for (int i = 0; i < kJobs; ++i) {
    many.emplace_back(ranks.stub(),
                      OrderIn("team-a", {absl::StrCat("fake.units.", kUnits),
                                         "fake.build_gate.go",
                                         absl::StrCat("fake.salt.", i)}));
  }
  // Half of the runners are the caller's, and no unit is built yet.
  Await([&] { return running() == 4; });
  Call few(other.stub(), OrderIn("team-a", {"fake.units.3", "fake.salt.few"}));
  Await([&] { return running() == 5; });
  daemon_.OpenGate("go");
  Await([&] { return few.IsDone(); });
  EXPECT_TRUE(few.status().ok()) << few.status();
  // About as many of each, of which this has a plan and three units.
  int64_t done = 0;
  for (const WorkerView& worker : daemon_.daemon().pool().Snapshot())
    done += worker.requests_done;
  EXPECT_LT(done, kJobs * kUnits / 2);
  for (Call& call : many) {
    Await([&] { return call.IsDone(); });
    EXPECT_TRUE(call.status().ok()) << call.status();
  }
}

// One admin call that nobody waits for.
struct Nosy {
  grpc::ClientContext context;
  wire::PurgeReply reply;
};

TEST_F(Crowd, AThousandAdminCallsOfOneCallerLeaveRoomForTheOperator) {
  const TestCa::Files own = ca_.Issue("nosy.example", "nosy");
  DaemonAddress address;
  address.tcp = absl::StrCat("localhost:", daemon_.daemon().tcp_port());
  address.tls = {
      .ca = ca_.file(), .certificate = own.certificate, .key = own.key};
  address.public_keys.push_back(SigningKey::Generate()->public_key());
  auto channel = OpenDaemonChannel(address);
  ASSERT_TRUE(channel.ok()) << channel.status();
  const auto stub = wire::AdminService::NewStub(*channel);
  wire::PurgeRequest request;
  request.set_cache_namespace("team-a");
  request.set_all(true);
  audit_.Fill();
  std::deque<Nosy> asked(kRanks);
  std::atomic<int> done = 0, refused = 0;
  for (Nosy& one : asked) {
    stub->async()->Purge(&one.context, &request, &one.reply,
                         [&](const grpc::Status& status) {
                           const auto code = status.error_code();
                           if (code == grpc::StatusCode::RESOURCE_EXHAUSTED)
                             ++refused;
                           else
                             EXPECT_TRUE(status.ok()) << status.error_message();
                           ++done;
                         });
  }
  // The caller holds its share, half of the places, since none of its calls can
  // end; all others were refused.
  constexpr int kHeld = kMostAdminCalls / 2;
  Await([&] { return done >= kRanks - kHeld; });
  EXPECT_EQ(refused, kRanks - kHeld);
  for (int i = 0; i < 10; ++i) ExpectTheOperatorIsHeard();
  EXPECT_EQ(done, kRanks - kHeld);
  Await([&] {
    audit_.Drain();
    return done == kRanks;
  });
  EXPECT_EQ(refused, kRanks - kHeld);
}

}  // namespace
}  // namespace kiln
