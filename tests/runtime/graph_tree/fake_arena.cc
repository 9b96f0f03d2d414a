#include "tests/runtime/graph_tree/fake_arena.h"

#include <algorithm>
#include <iterator>

#include "gtest/gtest.h"

namespace kiln::graph_tree {

FakeArena::FakeArena(int64_t cells, Reuse reuse)
    : memory_(cells), reuse_(reuse) {
  blocks_[0] = {cells, false};
}

int64_t* FakeArena::Allocate(int64_t cells) {
  cells = std::max<int64_t>(cells, 1);
  for (auto& [at, block] : blocks_) {
    if (block.is_allocated || block.cells < cells) continue;
    if (block.cells > cells) {
      blocks_[at + cells] = {block.cells - cells, false};
    }
    block = {cells, true};
    return memory_.data() + at;
  }
  ADD_FAILURE() << "the arena is full";
  return nullptr;
}

void FakeArena::Free(const int64_t* address) {
  auto block = blocks_.find(address - memory_.data());
  ASSERT_TRUE(block != blocks_.end() && block->second.is_allocated)
      << "no allocated block at cell " << address - memory_.data();
  if (reuse_ == Reuse::kNever) return;
  block->second.is_allocated = false;
  const auto next = std::next(block);
  if (next != blocks_.end() && !next->second.is_allocated) {
    block->second.cells += next->second.cells;
    blocks_.erase(next);
  }
  if (block == blocks_.begin()) return;
  const auto before = std::prev(block);
  if (!before->second.is_allocated) {
    before->second.cells += block->second.cells;
    blocks_.erase(block);
  }
}

bool FakeArena::Contains(const void* address) const {
  const auto* cell = static_cast<const int64_t*>(address);
  return cell >= memory_.data() && cell < memory_.data() + memory_.size();
}

std::vector<const void*> FakeArena::AllocatedBlocks() const {
  std::vector<const void*> allocated;
  for (const auto& [at, block] : blocks_) {
    if (block.is_allocated) allocated.push_back(memory_.data() + at);
  }
  return allocated;
}

}  // namespace kiln::graph_tree
