// What a recording is for: the forms of the inputs that tell recordings apart, and
// those that do not.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/plan_graphs/plan_graphs_rig.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Forms : public PlanGraphsTest {
 protected:
  // The results of a step's only call, on a caller's own memory.
  std::vector<OutputValue> Results(int plan, const Tensor& x) {
    graphs_->BeginStep();
    auto results = graphs_->RunViews(plan, {Bare(x)}, {});
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? *std::move(results) : std::vector<OutputValue>();
  }
};

// y = x for x of any stride.
constexpr char kAnyStride[] = R"(
  symbols { name: "s0" source { kind: KIND_STRIDE input: 0 dim: 0 } min: 1 max: 9 }
  inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 4 }
    strides { code { op: SYM_OP_SYMBOL value: 0 } } } }
  buffers { kind: KIND_INPUT index: 0 name: "x" }
  buffers { kind: KIND_OUTPUT name: "y" bytes { value: 16 } }
  steps { copy {
    from { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 4 }
      strides { code { op: SYM_OP_SYMBOL value: 0 } } }
    to { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } } }
  outputs { view { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } })";

TEST_F(Forms, EachStrideHasItsRecordingWhateverCameBefore) {
  const int copy = Add(kAnyStride);
  for (int i = 0; i < 9; ++i) {
    Tensor x = FloatTensor({8}, {0, 1, 2, 3, 4, 5, 6, 7});
    static_cast<float*>(x.data)[0] = static_cast<float>(10 * i);
    const int64_t stride = i % 3 == 2 ? 2 : 1;
    x.device = DeviceKind::kNull;
    x.sizes = {4};
    x.strides = {stride};
    const auto y = Results(copy, x);
    ASSERT_EQ(y.size(), 1u);
    EXPECT_THAT(FloatValues(std::get<Tensor>(y[0])),
                ElementsAre(10 * i, stride, 2 * stride, 3 * stride));
  }
  EXPECT_EQ(counters().warm_ups, 2);
  EXPECT_EQ(counters().recordings, 2);
}

TEST_F(Forms, WhereACopiedInputLiesInItsStorageIsAllTheSame) {
  const int copy = Add(CopyPlan());
  for (int i = 0; i < 6; ++i) {
    Tensor x = Vector(static_cast<float>(i));
    x.storage_offset = 4 * i;
    const auto y = Results(copy, x);
    ASSERT_EQ(y.size(), 1u);
    EXPECT_EQ(FloatValues(std::get<Tensor>(y[0]))[0], i);
  }
  EXPECT_EQ(counters().warm_ups, 1);
  EXPECT_EQ(counters().recordings, 1);
  EXPECT_EQ(counters().replays, 4);
}

TEST_F(Forms, AnOffsetThatAPlanReadsTellsRecordingsApart) {
  const int offset = Add(R"(
    symbols { name: "s0" source { kind: KIND_OFFSET input: 0 } min: 0 max: 99 }
    inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 }
      storage_offset { code { op: SYM_OP_SYMBOL value: 0 } } } }
    buffers { kind: KIND_INPUT index: 0 name: "x" bytes { value: 16 } }
    outputs { sym { code { op: SYM_OP_SYMBOL value: 0 } } })");
  for (int i = 0; i < 9; ++i) {
    Tensor x = Vector(1);
    x.storage_offset = i % 3;
    const auto s = Results(offset, x);
    ASSERT_EQ(s.size(), 1u);
    EXPECT_EQ(std::get<int64_t>(s[0]), i % 3);
  }
  EXPECT_EQ(counters().recordings, 3);
}

TEST_F(Forms, AnotherFormIsRefusedAfterARecordingToo) {
  const int copy = Add(CopyPlan());
  for (int i = 0; i < 3; ++i) Begin(copy, {Vector(1)});
  Tensor bytes = Vector(1);
  bytes.dtype = DType::kInt8;
  const absl::Status refused = graphs_->Run(copy, {bytes}, {}).status();
  EXPECT_THAT(refused.message(), HasSubstr("input 0: "));
  EXPECT_THAT(refused.message(), HasSubstr("f32"));
  Tensor longer = Vector(1, 8);
  EXPECT_THAT(graphs_->Run(copy, {longer}, {}).status().message(),
              HasSubstr("input 0: size 0: found 8, expected 4"));
  EXPECT_EQ(FloatValues(Begin(copy, {Vector(4)})[0])[0], 4);
}

// Which no guard looks at.
TEST_F(Forms, AnInputWithoutAnAddressIsRefusedAfterARecordingToo) {
  const int copy = Add(CopyPlan());
  for (int i = 0; i < 3; ++i) Results(copy, Vector(1));
  Tensor nowhere = Vector(1);
  nowhere.data = nullptr;
  EXPECT_THAT(graphs_->RunViews(copy, {Bare(nowhere)}, {}).status().message(),
              HasSubstr("input 0: has no address"));
  EXPECT_EQ(FloatValues(std::get<Tensor>(Results(copy, Vector(4))[0]))[0], 4);
  EXPECT_EQ(counters().recordings, 1);
}

}  // namespace
}  // namespace kiln
