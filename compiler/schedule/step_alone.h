#ifndef KILN_COMPILER_SCHEDULE_STEP_ALONE_H_
#define KILN_COMPILER_SCHEDULE_STEP_ALONE_H_

#include <string>

#include "compiler/loop/loop_nest.h"

namespace kiln {

// A program of one step of another, in one of the ways to compute it: what
// a measurement compares.
struct StepAlone {
  std::string way;  // as decisions name it
  LoopProgram program;
};

// `step` of `program` without the other steps, over the same buffers: those that it
// reads are inputs, those that it writes are outputs. Pure.
LoopProgram Alone(const LoopProgram& program, const LoopStep& step);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_STEP_ALONE_H_
