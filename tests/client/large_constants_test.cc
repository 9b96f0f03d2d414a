#include "client/large_constants.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "client/artifact_shelf.h"
#include "client/c_api/kiln.h"
#include "client/graph_builder.h"
#include "client/load_bundle.h"
#include "client/session.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "tests/support/test_daemon.h"

// Constants of over 1 MiB against a whole daemon with a real worker, which
// takes no message of more than a tenth of one of them.

namespace kiln {
namespace {

constexpr int64_t kMany = 512 * 1024;  // floats: 2 MiB
constexpr int64_t kMessageBytes = 200'000;

std::string Bytes(const std::vector<float>& data) {
  return {reinterpret_cast<const char*>(data.data()),
          data.size() * sizeof(float)};
}

std::vector<float> Steps(int64_t count, float step) {
  std::vector<float> data(count);
  for (int64_t i = 0; i < count; ++i) data[i] = step * static_cast<float>(i);
  return data;
}

const TensorSpec kScalar = {.dtype = DType::kFloat32, .sizes = {}};
const TensorSpec kVector = {.dtype = DType::kFloat32, .sizes = {kMany}};

// small * large + x, all vectors but small; the large constant is not the first.
wire::Graph ScaledAndShifted(float small, const std::vector<float>& large) {
  GraphBuilder b("scaled_and_shifted");
  const Value x = b.Input("x", kVector);
  const Value factor = b.Constant("factor", kScalar, Bytes({small}));
  const Value table = b.Constant("table", kVector, Bytes(large));
  const Value scaled = b.Node("aten.mul.Tensor", {factor, table}, kVector);
  b.Output(b.Node("aten.add.Tensor", {scaled, x}, kVector));
  const auto graph = b.Build();
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : wire::Graph();
}

Tensor On(std::vector<float>& data) {
  Tensor tensor;
  tensor.data = data.data();
  tensor.storage = data.data();
  tensor.sizes = {static_cast<int64_t>(data.size())};
  tensor.strides = {1};
  return tensor;
}

float At(const OutputValue& value, int64_t i) {
  return static_cast<const float*>(std::get<Tensor>(value).data)[i];
}

TEST(WithLargeConstantsAsInputs, KeepsTheWordsThatKernelsAreNamedBy) {
  wire::Graph graph = ScaledAndShifted(2, Steps(kMany, 1));
  for (const char* word : {"scale", "shift"}) graph.add_kernel_words(word);
  const auto made = WithLargeConstantsAsInputs(graph);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->kernel_words_size(), 2);
  EXPECT_EQ(made->kernel_words(1), "shift");
}

class LargeConstants : public testing::Test {
 protected:
  LargeConstants()
      : daemon_([](Config& config) {
          config.max_message_bytes = kMessageBytes;
          config.worker_program =
              std::filesystem::absolute("compiler/kiln-worker");
        }) {
    session_ = Open(shelf_);
  }

  std::shared_ptr<Session> Open(const std::shared_ptr<ArtifactShelf>& shelf) {
    SessionOptions options;
    options.daemon.socket = daemon_.config().socket;
    options.daemon.answer_timeout = absl::Seconds(60);
    options.device.threads = 1;
    options.shelf = shelf;
    auto session = Session::Open(options);
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *session : nullptr;
  }

  std::shared_ptr<Callable> Compile(const wire::Graph& graph) {
    auto callable = session_->Compile(graph);
    EXPECT_TRUE(callable.ok()) << callable.status();
    return callable.ok() ? *callable : nullptr;
  }

  // The result at element `i` for an x of zeros and one of `x` at i.
  float ResultAt(Callable& callable, int64_t i, float x) {
    std::vector<float> data(kMany, 0.0f);
    data[i] = x;
    const auto results = callable.Run({InputValue(On(data))});
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? At((*results)[0], i) : -1;
  }

  TestDaemon daemon_;
  const std::shared_ptr<ArtifactShelf> shelf_ =
      std::make_shared<ArtifactShelf>();
  std::shared_ptr<Session> session_;
};

TEST_F(LargeConstants, AreBoundToEveryRunBehindTheCallersInputs) {
  const auto callable = Compile(ScaledAndShifted(3, Steps(kMany, 0.5f)));
  ASSERT_NE(callable, nullptr);
  EXPECT_EQ(callable->num_inputs(), 1);
  EXPECT_EQ(ResultAt(*callable, 0, 7), 7);
  EXPECT_EQ(ResultAt(*callable, 1000, 7), 3 * 500 + 7);
  EXPECT_EQ(ResultAt(*callable, kMany - 1, 0), 1.5f * (kMany - 1));
}

TEST_F(LargeConstants, AloneAreNotSentAndAreInNoArtifact) {
  const wire::Graph graph = ScaledAndShifted(3, Steps(kMany, 0.5f));
  const auto sent = WithLargeConstantsAsInputs(graph);
  ASSERT_TRUE(sent.ok()) << sent.status();
  EXPECT_LT(sent->ByteSizeLong(), 1000);
  ASSERT_EQ(sent->constants_size(), 1);
  EXPECT_EQ(sent->constants(0).data(), graph.constants(0).data());
  const auto callable = Compile(graph);
  ASSERT_NE(callable, nullptr);
  const wire::Artifact& artifact =
      callable->executor()->artifact().view().message();
  EXPECT_LT(artifact.ByteSizeLong(), kMessageBytes);
}

TEST_F(LargeConstants, ThatDifferShareOneArtifact) {
  const auto first = Compile(ScaledAndShifted(3, Steps(kMany, 0.5f)));
  const auto second = Compile(ScaledAndShifted(3, Steps(kMany, 2)));
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(daemon_.count(Count::kPlans), 1);
  EXPECT_EQ(ResultAt(*first, 100, 1), 151);
  EXPECT_EQ(ResultAt(*second, 100, 1), 601);
  // A small one is a part of the key.
  const auto third = Compile(ScaledAndShifted(4, Steps(kMany, 2)));
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(daemon_.count(Count::kPlans), 2);
  EXPECT_EQ(ResultAt(*third, 100, 1), 801);
}

TEST_F(LargeConstants, AreNotCountedInWhatACallerIsTold) {
  const auto callable = Compile(ScaledAndShifted(3, Steps(kMany, 0.5f)));
  ASSERT_NE(callable, nullptr);
  std::vector<float> data(kMany);
  const std::vector<InputValue> two = {On(data), On(data)};
  const absl::Status refused = callable->Run(two).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kGuardFailed);
  EXPECT_EQ(refused.message(), "2 inputs, expected 1");

  struct Seen : InputObserver {
    std::vector<int32_t> inputs;
    void Done(int32_t input) override { inputs.push_back(input); }
  } seen;
  RunOptions options;
  options.inputs = &seen;
  ASSERT_TRUE(callable->Run({two[0]}, options).ok());
  EXPECT_EQ(seen.inputs, std::vector<int32_t>{0});
}

TEST_F(LargeConstants, ServeEverySizeAndWhatIsSwappedIn) {
  GraphBuilder b("columns");
  const SizeExpr n = b.Symbol("n", {.hint = 8});
  const TensorSpec rows = {.dtype = DType::kFloat32, .sizes = {n, kMany}};
  const Value x = b.Input("x", {.dtype = DType::kFloat32, .sizes = {n, 1}});
  const Value table = b.Constant("table", kVector, Bytes(Steps(kMany, 1)));
  b.Output(b.Node("aten.mul.Tensor", {x, table}, rows));
  const auto graph = b.Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto callable = Compile(*graph);
  ASSERT_NE(callable, nullptr);
  const auto serving = callable->executor()->artifact().view().request_digest();
  CompileReport report;
  wire::CompileRequest request;
  *request.mutable_graph() = *WithLargeConstantsAsInputs(*graph);
  *request.mutable_target() = session_->target();
  const auto again = session_->CompileOnly(request, report);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->request_digest.bytes(), serving);
  for (const int64_t rows : {2, 1, 3}) {
    std::vector<float> data(rows, 2.0f);
    Tensor given = On(data);
    given.sizes = {rows, 1};
    given.strides = {1, 1};
    const auto results = callable->Run({InputValue(given)});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ(At((*results)[0], rows * kMany - 1), 2.0f * (kMany - 1));
    const absl::Status swapped = callable->Swap(0, again->artifact);
    EXPECT_TRUE(swapped.ok()) << swapped;
  }
}

TEST_F(LargeConstants, AreInNoBundleAndMayDifferFromThoseOfItsMaker) {
  ASSERT_NE(Compile(ScaledAndShifted(3, Steps(kMany, 0.5f))), nullptr);
  const std::string bundle = shelf_->Save();
  EXPECT_LT(bundle.size(), kMessageBytes);
  const auto shelf = std::make_shared<ArtifactShelf>();
  session_ = Open(shelf);
  const auto artifacts = LoadBundle(bundle, {session_}, *shelf);
  ASSERT_TRUE(artifacts.ok()) << artifacts.status();
  EXPECT_EQ(*artifacts, 1);
  daemon_.Stop();
  const auto callable = Compile(ScaledAndShifted(3, Steps(kMany, 2)));
  ASSERT_NE(callable, nullptr);
  EXPECT_EQ(ResultAt(*callable, 100, 1), 601);
}

TEST_F(LargeConstants, AreNoInputsOfTheCAbi) {
  KilnSessionOptions options = {};
  options.struct_size = sizeof(options);
  options.socket = daemon_.config().socket.c_str();
  options.threads = 1;
  KilnSession* session = nullptr;
  ASSERT_EQ(kiln_session_open(&options, &session), nullptr);
  const std::string bytes =
      ScaledAndShifted(3, Steps(kMany, 0.5f)).SerializeAsString();
  KilnGraph* graph = nullptr;
  ASSERT_EQ(kiln_graph_parse(bytes.data(), bytes.size(), &graph), nullptr);
  KilnCallable* callable = nullptr;
  ASSERT_EQ(kiln_compile(session, graph, &callable), nullptr);
  kiln_graph_free(graph);

  std::vector<float> data(kMany, 1.0f);
  const int64_t size = kMany;
  const int64_t stride = 1;
  KilnValue x = {};
  x.kind = KILN_TENSOR;
  x.dtype = KILN_FLOAT32;
  x.rank = 1;
  x.data = data.data();
  x.sizes = &size;
  x.strides = &stride;
  KilnResults* results = nullptr;
  ASSERT_EQ(kiln_run(callable, &x, 1, 0, nullptr, &results), nullptr);
  const KilnValue y = kiln_results_get(results, 0);
  EXPECT_EQ(static_cast<const float*>(y.data)[100], 151);
  kiln_results_free(results);

  const KilnValue two[] = {x, x};
  KilnStatus* refused = kiln_run(callable, two, 2, 0, nullptr, &results);
  ASSERT_NE(refused, nullptr);
  EXPECT_STREQ(kiln_status_message(refused),
               "number of inputs: found 2, expected 1 to 1");
  kiln_status_free(refused);
  kiln_callable_free(callable);
  kiln_session_close(session);
}

TEST_F(LargeConstants, ThatAreAResultLiveAsLongAsIt) {
  GraphBuilder b("table");
  b.Input("x", kScalar);
  b.Output(b.Constant("table", kVector, Bytes(Steps(kMany, 1))));
  const auto graph = b.Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto callable = Compile(*graph);
  ASSERT_NE(callable, nullptr);
  std::vector<float> one(1);
  Tensor x = On(one);
  x.sizes = {};
  x.strides = {};
  const auto results = callable->Run({InputValue(x)});
  ASSERT_TRUE(results.ok()) << results.status();
  callable.reset();
  EXPECT_EQ(At((*results)[0], kMany - 1), kMany - 1);
}

TEST_F(LargeConstants, ThatAreWrittenAreRefused) {
  GraphBuilder b("written");
  const Value x = b.Input("x", kVector);
  const Value table = b.Constant("table", kVector, Bytes(Steps(kMany, 1)));
  b.Output(b.Node("aten.add_.Tensor", {table, x}, kVector));
  const auto graph = b.Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  const absl::Status refused = session_->Compile(*graph).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kUnsupportedOp);
  EXPECT_EQ(refused.message(),
            "the graph writes to a constant of over 1048576 bytes; pass it as "
            "an input instead");
}

// 512 x 64 x 3 x 3 weights, in every run the same.
TEST_F(LargeConstants, ThatConvolutionsReadAreReorderedOnce) {
  constexpr int64_t kIn = 64, kOut = 512, kSide = 4;
  const TensorSpec image = {.dtype = DType::kFloat32,
                            .sizes = {1, kIn, kSide, kSide}};
  const TensorSpec window = {.dtype = DType::kFloat32,
                             .sizes = {kOut, kIn, 3, 3}};
  const TensorSpec result = {.dtype = DType::kFloat32,
                             .sizes = {1, kOut, kSide - 2, kSide - 2}};
  GraphBuilder b("convolution");
  const Value x = b.Input("x", image);
  std::vector<float> weights(kOut * kIn * 9);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = i / (kIn * 9);
  const Value w = b.Constant("w", window, Bytes(weights));
  const Arg ones = Arg::List({1, 1}), zeros = Arg::List({0, 0});
  b.Output(b.Node("aten.convolution.default",
                  {x, w, Arg::None(), ones, zeros, ones, false, zeros, 1},
                  result));
  const auto graph = b.Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto callable = Compile(*graph);
  ASSERT_NE(callable, nullptr);
  const std::vector<std::string> calls = callable->executor()->LibraryCalls();
  ASSERT_EQ(calls.size(), 1u);
  if (!absl::StrContains(calls[0], "oneDNN")) GTEST_SKIP() << "no oneDNN here";
  std::vector<float> data(kIn * kSide * kSide, 1);
  Tensor ones_of_x = On(data);
  ones_of_x.sizes = {1, kIn, kSide, kSide};
  ones_of_x.strides = ContiguousStrides(ones_of_x.sizes);
  for (int run = 0; run < 3; ++run) {
    const auto results = callable->Run({InputValue(ones_of_x)});
    ASSERT_TRUE(results.ok()) << results.status();
    const OutputValue& y = (*results)[0];
    EXPECT_EQ(At(y, 5 * std::get<Tensor>(y).strides[1]), 5 * 9 * kIn);
  }
  EXPECT_EQ(session_->device().externs->weight_reorders(), 1);
}

// What `change` of a sound graph is refused with.
absl::Status Refusal(void (*change)(wire::Constant&)) {
  wire::Graph graph = ScaledAndShifted(3, Steps(kMany, 1));
  change(*graph.mutable_constants(1));
  return WithLargeConstantsAsInputs(graph).status();
}

TEST(WithLargeConstantsAsInputs, RefusesDataThatIsNotWhatItIsSaidToBe) {
  const absl::Status length = Refusal(
      [](wire::Constant& constant) { constant.mutable_data()->append("x"); });
  EXPECT_EQ(ReasonOf(length), ErrorReason::kMalformedGraph);
  EXPECT_EQ(length.message(),
            "constant 1: found 2097153 bytes, expected 2097152");
  const absl::Status stride = Refusal([](wire::Constant& constant) {
    constant.mutable_tensor()->mutable_strides(0)->set_value(2);
  });
  EXPECT_EQ(stride.message(),
            "constant 1: found stride 2, expected 1: row-major");
  const absl::Status huge = Refusal([](wire::Constant& constant) {
    constant.mutable_tensor()->mutable_sizes(0)->set_value(int64_t{1} << 62);
  });
  EXPECT_EQ(ReasonOf(huge), ErrorReason::kMalformedGraph) << huge;
  const absl::Status dtype = Refusal([](wire::Constant& constant) {
    constant.mutable_tensor()->set_dtype(wire::DTYPE_COMPLEX64);
  });
  EXPECT_EQ(ReasonOf(dtype), ErrorReason::kUnsupportedOp) << dtype;
}

TEST(WithLargeConstantsAsInputs, LeavesAMebibyteWhereItIs) {
  constexpr int64_t kMebibyte = 256 * 1024;  // floats
  const TensorSpec vector = {.dtype = DType::kFloat32, .sizes = {kMebibyte}};
  GraphBuilder b("small");
  const Value x = b.Input("x", vector);
  const Value table = b.Constant("table", vector, Bytes(Steps(kMebibyte, 1)));
  b.Output(b.Node("aten.add.Tensor", {x, table}, vector));
  const auto graph = b.Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto same = WithLargeConstantsAsInputs(*graph);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->SerializeAsString(), graph->SerializeAsString());
}

}  // namespace
}  // namespace kiln
