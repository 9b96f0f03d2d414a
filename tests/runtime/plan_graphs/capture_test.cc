// Captures of plans that call a library, on the null device.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/extern_kernel.h"
#include "tests/runtime/plan_graphs/plan_graphs_rig.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// y = a @ b for a, b: f32[2, 2], by a library; then z = y.
constexpr char kProduct[] = R"(
  inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
    strides { value: 2 } strides { value: 1 } } }
  buffers { kind: KIND_INPUT index: 0 name: "a" }
  buffers { kind: KIND_OUTPUT name: "y" bytes { value: 16 } }
  buffers { kind: KIND_OUTPUT name: "z" bytes { value: 16 } }
  steps { extern_call { name: "mm"
    inputs { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } }
    inputs { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } }
    outputs { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } } } }
  steps { copy {
    from { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } }
    to { buffer: 2 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } } }
  outputs { view { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } }
  outputs { view { buffer: 2 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } }
)";

// A null device whose products write 5 into their workspace and their result.
class Products final : public ExternLibrary {
 public:
  class Product final : public PreparedCall {
   public:
    explicit Product(Products& of) : of_(of) {}
    absl::Status Run(const ExternBuffers& buffers,
                     Stream stream) const override {
      of_.workspaces.push_back(buffers.workspace);
      if (of_.waits) {
        RETURN_IF_ERROR(of_.device->Synchronize(stream));
      }
      const StridedView from = {buffers.workspace, 4, {}, {}};
      RETURN_IF_ERROR(of_.device->Fill(buffers.workspace, 4,
                                       kWorkspaceBytes / 4, 5, stream));
      return of_.device->Copy(from, {buffers.operand[3], 4, {}, {}}, stream);
    }
    int64_t workspace_bytes() const override { return kWorkspaceBytes; }
    absl::string_view library() const override { return "products"; }

   private:
    Products& of_;
  };
  static constexpr int64_t kWorkspaceBytes = 4096;

  absl::StatusOr<std::shared_ptr<const PreparedCall>> Prepare(
      const ExternProblem&) override {
    return std::make_shared<Product>(*this);
  }

  Device* device = nullptr;
  bool waits = false;
  std::vector<void*> workspaces;
};

class Captures : public PlanGraphsTest {
 protected:
  Captures() {
    products_->device = device_.get();
    externs_ = products_;
  }
  static Tensor Square() {
    Tensor square = FloatTensor({2, 2}, {1, 2, 3, 4});
    square.device = DeviceKind::kNull;
    return square;
  }
  bool IsOfThePool(const void* address) const {
    const auto* const at = static_cast<const char*>(address);
    for (const PoolSegment& segment :
         allocator_->State(graphs_->memory().pool())) {
      if (at >= segment.base && at < segment.base + segment.bytes) {
        return true;
      }
    }
    return false;
  }
  // The bits of the first element.
  static int32_t FirstOf(const Tensor& tensor) {
    int32_t found = 0;
    std::memcpy(&found, tensor.data, sizeof(found));
    return found;
  }

  const std::shared_ptr<Products> products_ = std::make_shared<Products>();
};

TEST_F(Captures, AWorkspaceIsThePoolsAndNoResultOfItsRunHasIt) {
  const int product = Add(kProduct);
  for (int i = 0; i < 4; ++i) {
    const auto results = Begin(product, {Square()});
    ASSERT_EQ(results.size(), 2u);
    EXPECT_EQ(FirstOf(results[1]), 5);
    if (i == 1) {
      EXPECT_TRUE(IsOfThePool(products_->workspaces[1]));
      EXPECT_NE(products_->workspaces[1], results[0].data);
      EXPECT_NE(products_->workspaces[1], results[1].data);
    }
  }
  EXPECT_EQ(products_->workspaces.size(), 2u);  // a replay asks no library
}

TEST_F(Captures, ALibraryThatBreaksOneIsNamedAndTheNextCallWorks) {
  const int product = Add(kProduct);
  products_->waits = true;
  Begin(product, {Square()});
  graphs_->BeginStep();
  const absl::Status broken = graphs_->Run(product, {Square()}, {}).status();
  EXPECT_EQ(broken.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(broken.message(), HasSubstr("mm: synchronize: waits"));
  EXPECT_EQ(AllocatedBlocks(), 0);
  products_->waits = false;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(FirstOf(Begin(product, {Square()})[1]), 5);
  }
  EXPECT_EQ(counters().recordings, 1);
  EXPECT_EQ(counters().replays, 1);
}

// A session's callers do: the run is made up for.
TEST_F(Captures, WhereTheCallerKeepsItsInputsABrokenOneIsASkip) {
  const int product = Add(kProduct);
  products_->waits = true;
  const Tensor x = Square();
  for (int i = 0; i < 4; ++i) {
    graphs_->BeginStep();
    const auto results = graphs_->RunViews(product, {Bare(x)}, {});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ(FirstOf(std::get<Tensor>((*results)[1])), 5);
  }
  EXPECT_EQ(counters().plain_runs, 3);
  EXPECT_EQ(counters().recordings, 0);
  const auto notes = graphs_->TakeNotes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0].text,
              HasSubstr("a recording that cannot be made: mm: synchronize"));
}

}  // namespace
}  // namespace kiln
