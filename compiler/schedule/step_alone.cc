#include "compiler/schedule/step_alone.h"

#include "compiler/schedule/dependencies.h"

namespace kiln {

LoopProgram Alone(const LoopProgram& program, const LoopStep& step) {
  LoopProgram alone;
  alone.name = program.name;
  alone.shapes = program.shapes;
  alone.buffers = program.buffers;
  alone.steps.push_back(step);
  for (const bool written : {false, true}) {
    VisitStepBuffers(step, [&](BufferId b, bool writes) {
      if (writes != written) return;
      alone.buffers[b].kind = writes ? BufferKind::kOutput : BufferKind::kInput;
    });
  }
  return alone;
}

}  // namespace kiln
