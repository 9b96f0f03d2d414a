#include "tests/support/test_daemon.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "proto/key/request_digest.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/raw_call.h"
#include "tests/support/worker_memory.h"

namespace kiln {
namespace {

void SetDeadline(grpc::ClientContext& context, absl::Duration timeout) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
}

}  // namespace

Config TestConfig(const std::string& folder) {
  Config config;
  config.socket = absl::StrCat(folder, "/kilnd.sock");
  config.data_folder = absl::StrCat(folder, "/data");
  config.worker_program =
      absl::StrCat(getenv("TEST_SRCDIR"), "/kiln/tests/support/fake_worker");
  config.worker_count = 2;
  config.worker_memory_bytes = kTestWorkerMemoryBytes;
  config.worker_timeout = absl::Seconds(60);
  return config;
}

wire::CompileRequest FakeRequest(const std::vector<std::string>& ops,
                                 int64_t s0) {
  wire::CompileRequest request;
  request.mutable_target()->mutable_cpu()->set_level("x86-64-v3");
  wire::Graph& graph = *request.mutable_graph();
  graph.set_name("fake");
  wire::Symbol& symbol = *graph.add_symbols();
  symbol.set_name("n");
  symbol.set_hint(s0);
  wire::TensorMeta meta;
  meta.set_dtype(wire::DTYPE_FLOAT32);
  meta.set_device(wire::DEVICE_TYPE_CPU);
  wire::SymInstruction& size = *meta.add_sizes()->add_code();
  size.set_op(wire::SYM_OP_SYMBOL);
  meta.add_strides()->set_value(1);
  *graph.add_inputs()->mutable_tensor() = meta;
  for (const std::string& op : ops) {
    wire::Node& node = *graph.add_nodes();
    node.set_op(op);
    node.add_args()->set_value(0);
    *node.add_results() = meta;
  }
  graph.add_outputs()->set_value(static_cast<uint32_t>(graph.nodes_size()));
  return request;
}

wire::CompileRequest RequestOfBytes(int bytes) {
  constexpr int kTrace = 16 << 10;
  wire::CompileRequest request =
      FakeRequest(std::vector<std::string>(bytes / kTrace + 1, "fake.salt.a"));
  for (wire::Node& node : *request.mutable_graph()->mutable_nodes())
    node.set_stack_trace(std::string(kTrace, 'x'));
  return request;
}

wire::LookupRequest LookupFor(const wire::CompileRequest& request) {
  const auto canonical = CanonicalizeRequest(request);
  wire::LookupRequest lookup;
  lookup.set_request_digest(canonical->digest.total.ToBytes());
  for (const int64_t value : canonical->values) {
    lookup.mutable_values()->add_values(value);
  }
  *lookup.mutable_target() = request.target();
  lookup.set_cache_namespace(request.cache_namespace());
  return lookup;
}

absl::Status FromGrpc(const grpc::ClientContext& context,
                      const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find("kiln-reason");
  if (found != trailers.end()) {
    const auto reason = ReasonFromName(
        absl::string_view(found->second.data(), found->second.size()));
    if (reason.has_value()) return MakeError(*reason, status.error_message());
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

TestClient::TestClient(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  channel_ =
      grpc::CreateCustomChannel(absl::StrCat("unix:", socket),
                                grpc::InsecureChannelCredentials(), arguments);
}

CompileAnswer TestClient::Compile(const wire::CompileRequest& request,
                                  absl::Duration timeout) {
  grpc::ClientContext context;
  SetDeadline(context, timeout);
  const auto stream = CompileStub(*this)->Compile(&context, request);
  CompileAnswer answer;
  wire::CompileEvent event;
  while (stream->Read(&event)) {
    if (event.has_progress()) answer.progress.push_back(event.progress());
    if (event.has_result()) answer.result = event.result();
  }
  answer.status = FromGrpc(context, stream->Finish());
  return answer;
}

absl::StatusOr<wire::LookupReply> TestClient::Lookup(
    const wire::LookupRequest& request) {
  grpc::ClientContext context;
  SetDeadline(context, absl::Seconds(60));
  wire::LookupReply reply;
  RETURN_IF_ERROR(
      FromGrpc(context, CompileStub(*this)->Lookup(&context, request, &reply)));
  return reply;
}

absl::Status TestClient::CallRaw(const std::string& method,
                                 const std::string& bytes) {
  grpc::ClientContext context;
  SetDeadline(context, absl::Seconds(60));
  std::string reply;
  return FromGrpc(context,
                  kiln::CallRaw(channel_, context, method, bytes, reply));
}

void TestDaemon::Start(const Config& config) {
  config_ = config;
  Config named = config;
  // Any free port, which tests may ask for and configurations may not.
  if (named.tcp == "127.0.0.1:0") named.tcp = "127.0.0.1:1";
  // Longer than a configuration may have it, for a far store on a busy machine.
  named.far_budget = std::min(named.far_budget, absl::Milliseconds(200));
  const absl::Status checked = CheckConfig(named);
  EXPECT_TRUE(checked.ok()) << checked;
  auto started = Daemon::Start(config, geteuid(), clock_);
  EXPECT_TRUE(started.ok()) << started.status();
  daemon_ = *std::move(started);
  client_ = std::make_unique<TestClient>(config.socket);
}

void TestDaemon::Restart() {
  daemon_.reset();
  Start(config_);
}

void TestDaemon::ReplaceToolchain(const std::string& version) {
  std::ofstream told(absl::StrCat(config_.data_folder, "/scratch/toolchain"));
  told << version;
}

void TestDaemon::OpenGate(const std::string& name) {
  // The folder above the workers' scratch folders.
  std::ofstream gate(absl::StrCat(config_.data_folder, "/scratch/gate_", name));
  gate << "open";
}

void ExpectEmpty(TestDaemon& d) {
  grpc::ClientContext context;
  wire::ListReply list;
  const grpc::Status listed = AdminStub(d.client())->List(&context, {}, &list);
  EXPECT_TRUE(listed.ok()) << listed.error_message();
  EXPECT_EQ(list.entries_size(), 0);
}

void ExpectWellAndEmpty(TestDaemon& d, const wire::CompileRequest& good) {
  ExpectEmpty(d);
  // Compiled by a job of its own, or joined to one whose caller has gone.
  const CompileAnswer first = d.client().Compile(good, absl::Minutes(4));
  EXPECT_TRUE(first.status.ok()) << first.status;
  EXPECT_NE(first.result.served_from(), wire::CompileResult::SERVED_FROM_CACHE);
  const CompileAnswer second = d.client().Compile(good, absl::Minutes(4));
  EXPECT_EQ(second.result.served_from(),
            wire::CompileResult::SERVED_FROM_CACHE);
}

}  // namespace kiln
