#ifndef KILN_TESTS_RUNTIME_GRAPH_TREE_FAKE_ARENA_H_
#define KILN_TESTS_RUNTIME_GRAPH_TREE_FAKE_ARENA_H_

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/graph_tree/pool.h"

namespace kiln::graph_tree {

enum class Reuse { kYes, kNever };

// First-fit memory of 8-byte cells. An address is given again as soon as its
// block is free, so that a mistake about who uses it shows.
class FakeArena {
 public:
  FakeArena(int64_t cells, Reuse reuse);

  int64_t* Allocate(int64_t cells);
  void Free(const int64_t* address);

  bool Contains(const void* address) const;
  std::vector<const void*> AllocatedBlocks() const;

  // By offset in cells: the whole arena, in order.
  struct Block {
    int64_t cells = 0;
    bool is_allocated = false;
  };
  using Blocks = std::map<int64_t, Block>;
  const Blocks& blocks() const { return blocks_; }
  void SetBlocks(const Blocks& blocks) { blocks_ = blocks; }

 private:
  std::vector<int64_t> memory_;
  const Reuse reuse_;
  Blocks blocks_;
};

}  // namespace kiln::graph_tree

#endif  // KILN_TESTS_RUNTIME_GRAPH_TREE_FAKE_ARENA_H_
