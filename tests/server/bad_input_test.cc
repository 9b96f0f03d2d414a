// What a daemon must survive: every mistake gets a typed status that names its
// subject, nothing is stored, and the next good request is served.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/rocksdb_blob_store.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "server/daemon.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

using ::kiln::wire::CompileResult;

constexpr char kCompile[] = "/kiln.wire.CompileService/Compile";
constexpr char kLookup[] = "/kiln.wire.CompileService/Lookup";

// The daemon is well and empty, and no worker was asked before.
void ExpectNothingHappened(TestDaemon& d) {
  EXPECT_EQ(d.count(Count::kPlans), 0);
  ExpectWellAndEmpty(d);
}

TEST(BadInput, BytesThatAreNoMessageAreMalformed) {
  TestDaemon d;
  const std::string whole = FakeRequest({"fake.salt.a"}).SerializeAsString();
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff garbage"), std::string(1000, '\x0a'),
        whole.substr(0, whole.size() - 3)}) {
    EXPECT_EQ(ReasonOf(d.client().CallRaw(kCompile, bytes)),
              ErrorReason::kMalformedGraph);
  }
  EXPECT_EQ(ReasonOf(d.client().CallRaw(kLookup, "\xff\xff\xff")),
            ErrorReason::kMalformedGraph);
  ExpectNothingHappened(d);
}

TEST(BadInput, ARequestThatCanNeverWorkIsRefusedWithItsSubject) {
  TestDaemon d;
  struct Row {
    const char* subject;
    ErrorReason reason;
    std::function<void(wire::CompileRequest&)> spoil;
  };
  const Row rows[] = {
      {"node 0", ErrorReason::kMalformedGraph,
       [](wire::CompileRequest& r) {  // a cycle: a value defined later
         r.mutable_graph()->mutable_nodes(0)->mutable_args(0)->set_value(1);
       }},
      {"symbol 0", ErrorReason::kMalformedGraph,
       [](wire::CompileRequest& r) {  // a symbol that no input shows
         r.mutable_graph()
             ->mutable_inputs(0)
             ->mutable_tensor()
             ->mutable_sizes(0)
             ->Clear();
       }},
      {"input 0", ErrorReason::kTooLarge,
       [](wire::CompileRequest& r) {
         wire::TensorMeta& meta =
             *r.mutable_graph()->mutable_inputs(0)->mutable_tensor();
         meta.add_sizes()->set_value(int64_t{1} << 40);
         meta.add_strides()->set_value(1);
       }},
      {"input 0", ErrorReason::kMalformedGraph,
       [](wire::CompileRequest& r) {
         r.mutable_graph()
             ->mutable_inputs(0)
             ->mutable_tensor()
             ->mutable_strides()
             ->Clear();
       }},
      {"target", ErrorReason::kBadTarget,
       [](wire::CompileRequest& r) {
         r.mutable_target()->mutable_cpu()->set_level("z80");
       }},
      {"target", ErrorReason::kBadTarget,
       [](wire::CompileRequest& r) { r.clear_target(); }},
      {"plugin", ErrorReason::kUnsupportedOp,
       [](wire::CompileRequest& r) { r.add_plugins("mine"); }},
      {"graph", ErrorReason::kMalformedGraph,
       [](wire::CompileRequest& r) { r.mutable_graph()->set_name("a\nb"); }},
      {"graph", ErrorReason::kTooLarge,
       [](wire::CompileRequest& r) {
         r.mutable_graph()->set_name(std::string(1 << 20, 'x'));
       }},
  };
  for (const Row& row : rows) {
    wire::CompileRequest request = FakeRequest({"fake.salt.a"});
    row.spoil(request);
    const absl::Status status = d.client().Compile(request).status;
    EXPECT_EQ(ReasonOf(status), row.reason) << status;
    EXPECT_TRUE(absl::StartsWith(status.message(), row.subject)) << status;
  }
  ExpectNothingHappened(d);
}

TEST(BadInput, AMessageOverTheLimitIsRefused) {
  TestDaemon d([](Config& config) { config.max_message_bytes = 64 << 10; });
  EXPECT_EQ(ReasonOf(d.client().Compile(RequestOfBytes(100 << 10)).status),
            ErrorReason::kTooLarge);
  // Far over it, gRPC says so before the daemon has the bytes.
  EXPECT_EQ(d.client().Compile(RequestOfBytes(1 << 20)).status.code(),
            absl::StatusCode::kResourceExhausted);
  ExpectNothingHappened(d);
}

// "VmHWM" of this process, which is the daemon too.
int64_t MostKilobytes() {
  std::ifstream in("/proc/self/status");
  std::string word;
  int64_t kilobytes = 0;
  while (in >> word) {
    if (word == "VmHWM:" && in >> kilobytes) break;
  }
  return kilobytes;
}

// What stands in memory for a byte that was touched: TSan keeps four bytes of shadow
// and half a byte of records beside it.
#ifdef __SANITIZE_THREAD__
constexpr double kHeldForAByte = 5.5;
#else
constexpr double kHeldForAByte = 1;
#endif

TEST(BadInput, SixtyMebibytesOfEmptyNodesDoNotBecomeGigabytes) {
  TestDaemon d;
  const int64_t before = MostKilobytes();
  // Field 1 is the graph, the graph is of empty nodes.
  wire::CompileRequest one;
  one.mutable_graph()->add_nodes();
  const std::string node = one.graph().SerializeAsString();
  ASSERT_EQ(node.size(), 2u);
  constexpr int kBytes = 60 << 20;
  std::string graph;
  graph.reserve(kBytes);
  while (graph.size() < kBytes) graph += node;
  std::string bytes = "\x0a";
  for (uint32_t rest = kBytes; rest != 0; rest >>= 7)
    bytes += static_cast<char>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
  bytes += graph;
  const absl::Status status =
      d.client().CallRaw("/kiln.wire.CompileService/Compile", bytes);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kTooLarge) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "fields")) << status;
  // The bytes themselves, at both ends.
  EXPECT_LT(MostKilobytes() - before, kHeldForAByte * (600 << 10));
  ExpectNothingHappened(d);
}

TEST(BadInput, ALookupWithoutADigestIsRefused) {
  TestDaemon d;
  wire::LookupRequest lookup;
  lookup.set_request_digest("short");
  EXPECT_EQ(ReasonOf(d.client().Lookup(lookup).status()),
            ErrorReason::kBadOption);
  ExpectNothingHappened(d);
}

TEST(BadInput, AFailedJobLeavesNothingInTheCache) {
  TestDaemon d;
  const wire::CompileRequest request =
      FakeRequest({"fake.units.2", "fake.build_error.TOOLCHAIN_REJECTED"});
  const CompileAnswer answer = d.client().Compile(request);
  EXPECT_EQ(ReasonOf(answer.status), ErrorReason::kToolchainRejected);
  ExpectWellAndEmpty(d);
}

// Flips a bit in the middle of every artifact record below `folder`.
void FlipABit(const std::string& folder) {
  const auto db = RocksDb::Open(folder);
  ASSERT_TRUE(db.ok()) << db.status();
  const std::unique_ptr<BlobStore> store = (*db)->Store(RocksDbTable::kEntries);
  const absl::Status scanned =
      store->Scan([&store](const Digest& key, int64_t) {
        ASSIGN_OR_RETURN(const Blob blob, store->Get(key));
        std::string bytes = *blob;
        bytes[bytes.size() / 2] ^= 0x10;
        return store->Put(key, bytes);
      });
  ASSERT_TRUE(scanned.ok()) << scanned;
}

TEST(BadInput, ABrokenRecordIsCountedAndCompiledAgain) {
  TestDaemon d;
  const wire::CompileRequest request = FakeRequest({"fake.salt.a"});
  const CompileAnswer first = d.client().Compile(request);
  ASSERT_TRUE(first.status.ok()) << first.status;
  d.Stop();
  FlipABit(absl::StrCat(d.config().data_folder, "/records"));
  d.Restart();
  const CompileAnswer again = d.client().Compile(request);
  ASSERT_TRUE(again.status.ok()) << again.status;
  EXPECT_EQ(again.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_EQ(again.result.artifact().artifact(),
            first.result.artifact().artifact());
  EXPECT_EQ(d.count(Count::kCacheBroken), 1);
  EXPECT_EQ(d.client().Compile(request).result.served_from(),
            CompileResult::SERVED_FROM_CACHE);
}

TEST(BadInput, AKeyThatOthersCanReadIsRefused) {
  TestDaemon d;
  d.Stop();
  const std::string key = absl::StrCat(d.config().data_folder, "/signing.key");
  ASSERT_EQ(chmod(key.c_str(), 0644), 0);
  const auto started = Daemon::Start(d.config(), geteuid());
  EXPECT_EQ(ReasonOf(started.status()), ErrorReason::kPermission);
  EXPECT_TRUE(absl::StrContains(started.status().message(), key));
  ASSERT_EQ(chmod(key.c_str(), 0600), 0);
  d.Restart();
  ExpectNothingHappened(d);
}

TEST(BadInput, AFolderThatCannotBeAndAWorkerThatIsNotThereAreNamed) {
  const ShortFolder folder;
  Config config = TestConfig(folder.path());
  config.data_folder = "/proc/kiln";
  const auto no_folder = Daemon::Start(config, geteuid());
  EXPECT_EQ(ReasonOf(no_folder.status()), ErrorReason::kStorage);
  EXPECT_TRUE(absl::StrContains(no_folder.status().message(), "/proc/kiln"));

  config = TestConfig(folder.path());
  config.worker_program = "/nowhere/kiln-worker";
  const auto no_worker = Daemon::Start(config, geteuid());
  EXPECT_EQ(ReasonOf(no_worker.status()), ErrorReason::kNoToolchain);
  EXPECT_TRUE(
      absl::StrContains(no_worker.status().message(), "/nowhere/kiln-worker"));
  // What did not start leaves nothing in the way of one that does.
  EXPECT_TRUE(Daemon::Start(TestConfig(folder.path()), geteuid()).ok());
}

}  // namespace
}  // namespace kiln
