#ifndef KILN_COMPILER_SCHEDULE_STEP_ALONE_H_
#define KILN_COMPILER_SCHEDULE_STEP_ALONE_H_

#include <string>

#include "compiler/loop/loop_nest.h"

namespace kiln {

// One step of a program, as a program of its own, computed in one of several ways.
// Measurements compare these.
struct StepAlone {
  std::string way;  // the word of tuning decisions
  LoopProgram program;
};

// The program that has only `step` of `program`, over the same buffers. Those that the
// step reads become inputs, and those that it writes become outputs. Pure.
LoopProgram Alone(const LoopProgram& program, const LoopStep& step);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_STEP_ALONE_H_
