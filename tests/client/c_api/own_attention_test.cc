// Without cuDNN a client's attention is computed by kernels of ours.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "client/c_api/kiln.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/graph.pb.h"
#include "tests/client/c_api/emulated_cuda.h"

namespace kiln {
namespace {

constexpr int kRows = 8, kWidth = 8;

// One head of 8 queries, of keys that are the queries and values of their own.
constexpr char kHeads[] = R"(tensor { dtype: DTYPE_BFLOAT16
    sizes { value: 1 } sizes { value: 1 } sizes { value: 8 } sizes { value: 8 }
    strides { value: 64 } strides { value: 64 } strides { value: 8 }
    strides { value: 1 } device: DEVICE_TYPE_CUDA } alignment_bytes: 16)";

uint16_t BFloat16(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}

TEST(OwnAttention, IsWhatAClientWithoutCudnnGets) {
  KilnSession* const session = OpenEmulated(KILN_CUDA, 0);
  ASSERT_NE(session, nullptr);
  const std::string results =
      R"(results { dtype: DTYPE_BFLOAT16 sizes { value: 1 } sizes { value: 1 }
           sizes { value: 8 } sizes { value: 8 } strides { value: 64 }
           strides { value: 64 } strides { value: 8 } strides { value: 1 }
           device: DEVICE_TYPE_CUDA }
         results { dtype: DTYPE_FLOAT32 sizes { value: 1 } sizes { value: 1 }
           sizes { value: 8 } strides { value: 8 } strides { value: 8 }
           strides { value: 1 } device: DEVICE_TYPE_CUDA })";
  const std::string text =
      std::string("inputs { name: \"q\" ") + kHeads +
      " } inputs { name: \"v\" " + kHeads +
      " } nodes { op: \"prims.attention.default\" " +
      R"(args { value: 0 } args { value: 0 } args { value: 1 }
         args { none {} } args { none {} } args { none {} }
         args { string_value: "" } args { int_value: 0 }
         args { float_value: 1 } args { float_value: 0 }
         args { list { items { int_value: 64 } items { int_value: 64 }
                       items { int_value: 8 } items { int_value: 1 } } } )" +
      results + " } outputs { value: 2 }";
  wire::Graph message;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message))
      << text;
  const std::string bytes = message.SerializeAsString();
  KilnGraph* graph = nullptr;
  Take(kiln_graph_parse(bytes.data(), bytes.size(), &graph));
  KilnCallable* callable = nullptr;
  Take(kiln_compile(session, graph, &callable));
  kiln_graph_free(graph);
  ASSERT_NE(callable, nullptr);

  // All weights of a query of zeros are equal: each result is the values' mean.
  alignas(256) uint16_t q[kRows * kWidth] = {};
  alignas(256) uint16_t v[kRows * kWidth];
  for (int i = 0; i < kRows * kWidth; ++i)
    v[i] = BFloat16(static_cast<float>(i / kWidth));
  const int64_t sizes[] = {1, 1, kRows, kWidth}, strides[] = {64, 64, 8, 1};
  KilnValue values[2] = {};
  for (KilnValue& value : values) {
    value.kind = KILN_TENSOR;
    value.dtype = KILN_BFLOAT16;
    value.rank = 4;
    value.sizes = sizes;
    value.strides = strides;
  }
  values[0].data = q;
  values[1].data = v;
  KilnRunOptions options = {};
  options.struct_size = sizeof(options);
  KilnResults* found = nullptr;
  Take(kiln_run_with(callable, values, 2, &options, &found));
  ASSERT_NE(found, nullptr);
  const auto* const y =
      static_cast<const uint16_t*>(kiln_results_get(found, 0).data);
  for (int i = 0; i < kRows * kWidth; ++i) EXPECT_EQ(y[i], BFloat16(3.5f)) << i;
  kiln_results_free(found);
  kiln_callable_free(callable);
  kiln_session_close(session);
}

}  // namespace
}  // namespace kiln
