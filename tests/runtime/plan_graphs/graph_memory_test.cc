// Who owns which block of the graphs' pool.
#include "runtime/plan_graphs/graph_memory.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/caching_allocator.h"
#include "runtime/null_device.h"
#include "runtime/tensor.h"

namespace kiln {
namespace {

class GraphMemoryTest : public testing::Test {
 protected:
  // On a new block of the pool, as a run leaves it.
  Tensor NewTensor() {
    const PoolRouting routing(*allocator_, memory_.pool());
    const auto block = allocator_->Allocate(16, nullptr);
    EXPECT_TRUE(block.ok()) << block.status();
    Tensor tensor;
    tensor.data = *block;
    tensor.owner = memory_.NewStorage(*block, GraphMemory::Block::kFreed);
    return tensor;
  }
  size_t Blocks() {
    const auto blocks = memory_.AllocatedBlocks();
    EXPECT_TRUE(blocks.ok()) << blocks.status();
    return blocks.ok() ? blocks->size() : 0;
  }

  const std::unique_ptr<Device> device_ = MakeNullDevice();
  const std::shared_ptr<CachingAllocator> allocator_ =
      std::make_shared<CachingAllocator>(device_->segments());
  GraphMemory memory_{allocator_};
};

TEST_F(GraphMemoryTest, SaysWhoHoldsABlock) {
  const Tensor nobodys = NewTensor();
  const MemoryHolder holder("plan 1: y, step 1");
  const Tensor held = NewTensor();
  EXPECT_EQ(memory_.OriginOf({nobodys.data}), "");
  EXPECT_EQ(memory_.OriginOf({nobodys.data, held.data}),
            "512 bytes of plan 1: y, step 1");  // what blocks are rounded to
}

TEST_F(GraphMemoryTest, ARestoredStorageFreesItsBlock) {
  Tensor tensor = NewTensor();
  const auto state = memory_.Checkpoint();
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_TRUE(memory_.Restore(**state, {memory_.StorageOf(tensor)}).ok());
  EXPECT_EQ(Blocks(), 1u);
  tensor.owner.reset();
  EXPECT_EQ(Blocks(), 0u);
}

// Another thread may drop it after the tree has looked.
TEST_F(GraphMemoryTest, AStorageThatHasDiedBeforeItsRestoreLeavesNoBlock) {
  Tensor tensor = NewTensor();
  const graph_tree::Storage storage = memory_.StorageOf(tensor);
  memory_.Watch(storage);
  const auto state = memory_.Checkpoint();
  ASSERT_TRUE(state.ok()) << state.status();
  tensor.owner.reset();
  ASSERT_TRUE(memory_.Restore(**state, {storage}).ok());
  EXPECT_EQ(Blocks(), 0u);
  EXPECT_EQ(allocator_->figures().unknown_frees, 0);
  memory_.Unwatch(storage);
}

// Its block may be another's by then.
TEST_F(GraphMemoryTest, AStorageThatIsNotRestoredFreesNothing) {
  Tensor stale = NewTensor();
  const auto state = memory_.Checkpoint();
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_TRUE(memory_.Restore(**state, {}).ok());
  stale.owner.reset();
  EXPECT_EQ(Blocks(), 1u);
  ASSERT_TRUE(memory_.Free(stale.data).ok());
  EXPECT_EQ(Blocks(), 0u);
  EXPECT_EQ(allocator_->figures().unknown_frees, 0);
}

}  // namespace
}  // namespace kiln
