#ifndef KILN_COMPILER_SCHEDULE_BUFFER_USES_H_
#define KILN_COMPILER_SCHEDULE_BUFFER_USES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// Who reads and writes a buffer of a loop program.
struct BufferUses {
  int writers = 0;
  int loads = 0;                 // load nodes in nests
  bool as_memory = false;        // a library call, a fill or an output uses it
  int64_t most_points_hint = 0;  // points of the largest nest that reads it
  absl::InlinedVector<size_t, 2> reader_steps;  // nests only, in order
  absl::InlinedVector<size_t, 1> writer_steps;
  size_t first_step = 0, last_step = 0;  // that touch it
};

// By buffer. Sizes are the program's hints.
std::vector<BufferUses> CountUses(const LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_BUFFER_USES_H_
