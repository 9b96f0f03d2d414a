// Which values of a reducing nest change along its reduced axes.
#pragma once

#include <vector>

#include "compiler/loop/loop_nest.h"

namespace kiln {

// A node moves where its index, or that of one it is made of, has a reduced
// axis. The result of a reduction does not. Holds for a nest whose body stays as
// it was; any number of threads may ask.
class MovingNodes {
 public:
  explicit MovingNodes(const LoopNest& nest);

  bool operator[](ScalarId id) const { return moves_[id]; }
  // By its value, its mask or its place.
  bool Moves(const Store& store) const;

 private:
  bool IndexMoves(const DimVector& index) const;

  uint32_t outer_;  // axes that are not reduced
  std::vector<bool> moves_;
};

}  // namespace kiln
