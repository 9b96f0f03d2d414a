// Which values of a reducing nest change along its reduced axes.
#pragma once

#include <vector>

#include "compiler/loop/loop_nest.h"

namespace kiln {

// A node moves if its index, or the index of a node that it depends on, has a reduced
// axis. The result of a reduction does not move. Valid while the nest's body is not
// changed. Thread-safe.
class MovingNodes {
 public:
  explicit MovingNodes(const LoopNest& nest);

  bool operator[](ScalarId id) const { return moves_[id]; }
  // Whether the value, the mask or the index moves.
  bool Moves(const Store& store) const;

 private:
  bool IndexMoves(const DimVector& index) const;

  uint32_t outer_;  // axes that are not reduced
  std::vector<bool> moves_;
};

}  // namespace kiln
