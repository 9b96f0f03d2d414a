#include "proto/base/count_fields.h"

#include <string>

#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"
#include "proto/compile_service.pb.h"

namespace kiln {
namespace {

std::optional<int64_t> CountIn(const std::string& bytes,
                               int64_t limit = 1 << 30) {
  google::protobuf::io::ArrayInputStream in(bytes.data(),
                                            static_cast<int>(bytes.size()));
  return CountFields(in, *wire::CompileRequest::descriptor(), limit);
}

TEST(CountFields, FieldsOfMessagesInMessagesCount) {
  EXPECT_EQ(CountIn(""), 0);
  wire::CompileRequest request;
  wire::Graph& graph = *request.mutable_graph();  // 1
  graph.set_name("g");                            // 2
  wire::Node& node = *graph.add_nodes();          // 3
  node.set_op("aten.add.Tensor");                 // 4
  node.add_args()->set_value(7);                  // 5, 6
  request.set_cache_namespace("team-a");          // 7
  EXPECT_EQ(CountIn(request.SerializeAsString()), 7);
}

TEST(CountFields, EmptyNodesCountAndTheLimitEndsTheCount) {
  wire::CompileRequest request;
  for (int i = 0; i < 100'000; ++i) request.mutable_graph()->add_nodes();
  const std::string bytes = request.SerializeAsString();
  EXPECT_LT(bytes.size(), 200'010u);
  EXPECT_EQ(CountIn(bytes), 100'001);
  EXPECT_EQ(CountIn(bytes, 1000), 1001);
}

TEST(CountFields, FieldsThatAreNotKnownCount) {
  // Field 1000, a varint, three times.
  std::string bytes;
  for (int i = 0; i < 3; ++i) bytes += "\xc0\x3e\x01";
  EXPECT_EQ(CountIn(bytes), 3);
}

TEST(CountFields, BytesThatAreNoMessageAreNone) {
  for (const std::string& bad :
       {std::string("\xff"), std::string("\x0a\x05x"),
        std::string("\x0a\xff\xff\xff\xff\x0f"), std::string("\x07"),
        std::string("\x0a\x02\x12\x05")}) {
    EXPECT_EQ(CountIn(bad), std::nullopt);
  }
}

}  // namespace
}  // namespace kiln
