// What a GPU says when a kernel meets an index out of bounds, by the emulated
// driver: the texts, for one launch. A real context ends with it.
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/graph.pb.h"
#include "tests/client/c_api/emulated_cuda.h"

namespace kiln {
namespace {

using testing::HasSubstr;

constexpr char kVector[] =
    R"(sizes { value: 4 } strides { value: 1 } device: DEVICE_TYPE_CUDA)";

// relu(op(x, i)) for four numbers and four indices.
std::string Graph(const std::string& op, const std::string& args) {
  return absl::StrCat(
      "name: \"g\" ", "inputs { name: \"x\" tensor { dtype: DTYPE_FLOAT32 ",
      kVector, " } } ", "inputs { name: \"i\" tensor { dtype: DTYPE_INT64 ",
      kVector, " } } ", "nodes { op: \"", op, "\" ", args,
      " results { dtype: DTYPE_FLOAT32 ", kVector, " } } ",
      "nodes { op: \"aten.relu.default\" args { value: 2 } ",
      "results { dtype: DTYPE_FLOAT32 ", kVector, " } } outputs { value: 3 }");
}

// What the driver prints of a run with `index` among the indices.
std::string SaidOf(const std::string& text, int64_t index) {
  wire::Graph message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  const std::string bytes = message.SerializeAsString();
  KilnSession* const session = OpenEmulated(KILN_CUDA, /*graphs=*/0);
  KilnGraph* graph = nullptr;
  KilnCallable* callable = nullptr;
  Take(kiln_graph_parse(bytes.data(), bytes.size(), &graph));
  Take(kiln_compile(session, graph, &callable));
  kiln_graph_free(graph);
  alignas(16) static float x[4] = {};
  alignas(16) static int64_t i[4] = {};
  i[2] = index;
  static const int64_t size = 4, stride = 1;
  const KilnValue inputs[] = {
      {KILN_TENSOR, KILN_FLOAT32, 1, x, &size, &stride, 0},
      {KILN_TENSOR, KILN_INT64, 1, i, &size, &stride, 0}};
  KilnResults* results = nullptr;
  testing::internal::CaptureStderr();
  KilnStatus* const status =
      kiln_run(callable, inputs, 2, /*seed=*/0, /*stream=*/nullptr, &results);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(status, nullptr);
  if (status != nullptr) kiln_status_free(status);
  kiln_callable_free(callable);
  kiln_session_close(session);
  return said;
}

TEST(DeviceAssert, NamesIndexSizeAndOperators) {
  const std::string gather =
      Graph("aten.gather.default",
            "args { value: 0 } args { int_value: 0 } args { value: 1 } "
            "args { bool_value: false }");
  EXPECT_THAT(SaidOf(gather, 4),
              HasSubstr("device-side assertion: index out of bounds: index 4 "
                        "of a dimension of size 4, in gather+relu"));
  EXPECT_THAT(SaidOf(gather, -1), HasSubstr("index -1 of a dimension"));
}

// The index as it was given, not as it counts from the end.
TEST(DeviceAssert, NamesAnIndexThatCountsFromTheEnd) {
  const std::string graph =
      Graph("aten.index.Tensor",
            "args { value: 0 } args { list { items { value: 1 } } }");
  EXPECT_THAT(SaidOf(graph, -5),
              HasSubstr("index -5 of a dimension of size 4, in index+relu"));
  EXPECT_THAT(SaidOf(graph, std::numeric_limits<int64_t>::min()),
              HasSubstr("index -9223372036854775808 of a dimension of size 4"));
  EXPECT_THAT(SaidOf(graph, 1234567890123456789),
              HasSubstr("index 1234567890123456789 of a dimension"));
}

}  // namespace
}  // namespace kiln
