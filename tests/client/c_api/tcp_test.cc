#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/c_api/kiln.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/test_daemon.h"

// A whole daemon with a real worker behind a port of this machine.

namespace kiln {
namespace {

void WithRealWorker(Config& config) {
  config.worker_program = std::filesystem::absolute("compiler/kiln-worker");
}

class CTcp : public testing::Test {
 protected:
  CTcp()
      : daemon_([](Config& config) {
          config.tcp = "127.0.0.1:0";
          config.tcp_plain = true;
          WithRealWorker(config);
        }),
        address_(absl::StrCat("127.0.0.1:", daemon_.daemon().tcp_port())) {
    grpc::ClientContext context;
    wire::DescribeReply said;
    EXPECT_TRUE(
        CompileStub(daemon_.client())->Describe(&context, {}, &said).ok());
    key_ = said.public_key();
  }

  KilnSessionOptions Options() const {
    KilnSessionOptions options = {};
    options.struct_size = sizeof(options);
    options.tcp = address_.c_str();
    options.public_keys = reinterpret_cast<const uint8_t*>(key_.data());
    options.public_key_count = 1;
    options.threads = 1;
    return options;
  }

  // Compiles x + x in a session; what went wrong, if anything. `daemon`: where to
  // put what is told of the daemon.
  std::string Compile(KilnSession* session, std::string* daemon = nullptr) {
    KilnGraph* graph = kiln_graph_new("double", KILN_CPU);
    const KilnSize four = {4, -1};
    const KilnSpec vector = {KILN_FLOAT32, 1, &four, nullptr};
    KilnArg both[2] = {};
    both[0].kind = both[1].kind = KILN_ARG_VALUE;
    both[0].integer = both[1].integer = kiln_graph_input(graph, "x", &vector);
    kiln_graph_output(
        graph, kiln_graph_node(graph, "aten.add.Tensor", both, 2, &vector));
    KilnCallable* callable = nullptr;
    KilnStatus* status = kiln_compile(session, graph, &callable);
    kiln_graph_free(graph);
    if (daemon != nullptr && callable != nullptr) {
      char text[256];
      kiln_callable_text(callable, KILN_TEXT_DAEMON, text, sizeof(text));
      *daemon = text;
    }
    kiln_callable_free(callable);
    return Take(status);
  }

  // The reason and message of a status, which is freed.
  static std::string Take(KilnStatus* status) {
    if (status == nullptr) return "";
    const std::string text = absl::StrCat(kiln_status_reason(status), ": ",
                                          kiln_status_message(status));
    kiln_status_free(status);
    return text;
  }

  TestDaemon daemon_;
  const std::string address_;
  std::string key_;
};

struct Heard {
  std::vector<int32_t> stages;
  int32_t kernels = 0;
};

void Hear(void* context, const KilnProgress* progress) {
  Heard& heard = *static_cast<Heard*>(context);
  EXPECT_STREQ(progress->graph, "double");
  heard.stages.push_back(progress->stage);
  if (progress->stage == KILN_BUILDING) heard.kernels = progress->total;
}

TEST_F(CTcp, ASessionCompilesThroughAPortAndHearsOfItsKernels) {
  KilnSessionOptions options = Options();
  Heard heard;
  options.on_progress = &Hear;
  options.progress_context = &heard;
  KilnSession* session = nullptr;
  ASSERT_EQ(Take(kiln_session_open(&options, &session)), "");
  EXPECT_EQ(Compile(session), "");
  kiln_session_close(session);
  EXPECT_EQ(daemon_.count(Count::kPlans), 1);
  EXPECT_FALSE(heard.stages.empty());
  EXPECT_EQ(heard.kernels, 1);
}

// What a caller knows of daemons that are started in the place of others.
struct Next {
  std::string address;
  int asked = 0;
};

int32_t FindNext(void* context, char* address, size_t size) {
  Next& next = *static_cast<Next*>(context);
  ++next.asked;
  EXPECT_EQ(size, static_cast<size_t>(KILN_ADDRESS_BYTES));
  if (next.address.size() >= size) return 0;
  std::memcpy(address, next.address.c_str(), next.address.size() + 1);
  return 1;
}

TEST_F(CTcp, ASessionGoesOnWithTheDaemonThatItsCallerFinds) {
  TestDaemon second(WithRealWorker);
  KilnSessionOptions options = Options();
  Next next;
  options.find_daemon = &FindNext;
  options.find_context = &next;
  KilnSession* session = nullptr;
  ASSERT_EQ(Take(kiln_session_open(&options, &session)), "");
  daemon_.Stop();
  next.address = std::string(KILN_ADDRESS_BYTES, 'x');
  EXPECT_NE(Compile(session), "");
  next.address = "unix:" + second.config().socket;
  EXPECT_EQ(Compile(session), "");
  EXPECT_EQ(Compile(session), "");
  kiln_session_close(session);
  EXPECT_EQ(next.asked, 2);
  EXPECT_EQ(second.count(Count::kPlans), 1);
}

TEST_F(CTcp, ADaemonThatSignsWithAnotherKeyIsRefusedAtTheDoor) {
  KilnSessionOptions options = Options();
  key_[0] = static_cast<char>(key_[0] ^ 1);
  KilnSession* session = nullptr;
  const std::string said = Take(kiln_session_open(&options, &session));
  EXPECT_EQ(said.substr(0, said.find(' ')), "ARTIFACT_UNTRUSTED:") << said;
  EXPECT_EQ(session, nullptr);
}

TEST_F(CTcp, APortWithoutAKeyIsRefused) {
  KilnSessionOptions options = Options();
  options.public_key_count = 0;
  KilnSession* session = nullptr;
  const std::string said = Take(kiln_session_open(&options, &session));
  EXPECT_NE(said.find("found no public key of it; name the one"),
            std::string::npos)
      << said;
}

TEST_F(CTcp, AProgramThatKnowsTheFirstVersionOfTheOptionsGoesOn) {
  KilnSessionOptions options;
  std::memset(&options, 0xff, sizeof(options));  // beyond is not its own
  const size_t known = offsetof(KilnSessionOptions, tcp);
  std::memset(&options, 0, known);
  options.struct_size = known;
  options.socket = daemon_.config().socket.c_str();
  KilnSession* session = nullptr;
  ASSERT_EQ(Take(kiln_session_open(&options, &session)), "");
  EXPECT_EQ(Compile(session), "");
  kiln_session_close(session);
}

TEST_F(CTcp, WhatOneSessionUsedAnotherNeedsNoDaemonFor) {
  KilnSessionOptions options = Options();
  options.shelf = kiln_shelf_new();
  KilnSession* session = nullptr;
  ASSERT_EQ(Take(kiln_session_open(&options, &session)), "");
  EXPECT_EQ(Compile(session), "");
  kiln_session_close(session);
  std::string bundle(kiln_shelf_save(options.shelf, nullptr, 0), '\0');
  EXPECT_EQ(kiln_shelf_save(options.shelf, bundle.data(), bundle.size()),
            bundle.size());
  kiln_shelf_free(options.shelf);

  options.shelf = kiln_shelf_new();
  ASSERT_EQ(Take(kiln_session_open(&options, &session)), "");
  daemon_.Stop();
  uint32_t devices = 0;
  EXPECT_EQ(Take(kiln_bundle_devices(bundle.data(), bundle.size(), &devices)),
            "");
  EXPECT_EQ(devices, 1u << KILN_CPU);
  int32_t count = 0;
  EXPECT_EQ(Take(kiln_shelf_load(options.shelf, &session, 1, bundle.data(),
                                 bundle.size(), &count)),
            "");
  EXPECT_EQ(count, 1);
  EXPECT_EQ(Compile(session), "");
  kiln_session_close(session);
  kiln_shelf_free(options.shelf);
}

TEST_F(CTcp, ALocalWorkerThatCompiledTellsWhatTheDaemonSaid) {
  const std::string worker =
      std::filesystem::absolute("compiler/kiln-worker").string();
  KilnSessionOptions options = Options();
  options.fallback = KILN_FALLBACK_LOCAL_WORKER;
  options.worker_program = worker.c_str();
  KilnSession* session = nullptr;
  ASSERT_EQ(Take(kiln_session_open(&options, &session)), "");
  std::string said;
  EXPECT_EQ(Compile(session, &said), "");
  EXPECT_EQ(said, "");
  kiln_session_close(session);

  daemon_.Stop();
  ASSERT_EQ(Take(kiln_session_open(&options, &session)), "");
  EXPECT_EQ(Compile(session, &said), "");
  EXPECT_EQ(said.substr(0, said.find(' ')), "UNAVAILABLE:") << said;
  kiln_session_close(session);
}

TEST_F(CTcp, BytesThatAreNoBundleAreRefused) {
  KilnShelf* shelf = kiln_shelf_new();
  int32_t count = 7;
  const std::string said =
      Take(kiln_shelf_load(shelf, nullptr, 0, "nonsense", 8, &count));
  EXPECT_EQ(said,
            "ARTIFACT_CORRUPT: bundle: found 8 bytes that are not a saved "
            "bundle (bad magic)");
  EXPECT_EQ(count, 7);
  EXPECT_EQ(Take(kiln_shelf_load(nullptr, nullptr, 0, "", 0, &count)),
            "BAD_OPTION: shelf: must not be NULL");
  kiln_shelf_free(shelf);
}

}  // namespace
}  // namespace kiln
