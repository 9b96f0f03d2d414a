#include "compiler/schedule/buffer_uses.h"

#include <algorithm>
#include <variant>

#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/dependencies.h"

namespace kiln {

std::vector<BufferUses> CountUses(const LoopProgram& program) {
  std::vector<BufferUses> all(program.buffers.size());
  std::vector<bool> touched(program.buffers.size());
  const auto memory = [&](const View& view) {
    all[view.buffer].as_memory = true;
  };
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const LoopStep& step = program.steps[s];
    VisitStepBuffers(step, [&](BufferId b, bool) {
      if (!touched[b]) all[b].first_step = s;
      touched[b] = true;
      all[b].last_step = s;
    });
    if (const auto* nest = std::get_if<LoopNest>(&step)) {
      const int64_t points = program.shapes.Hint(PointCount(*nest));
      for (const ScalarNode& node : nest->body) {
        if (node.op != ScalarOp::kLoad) continue;
        BufferUses& uses = all[node.buffer];
        ++uses.loads;
        if (uses.reader_steps.empty() || uses.reader_steps.back() != s)
          uses.reader_steps.push_back(s);
        uses.most_points_hint = std::max(uses.most_points_hint, points);
      }
      for (const Store& store : nest->stores) {
        ++all[store.buffer].writers;
        all[store.buffer].writer_steps.push_back(s);
      }
    } else if (const auto* sums = std::get_if<Contraction>(&step)) {
      VisitReads(*sums, memory, [&](const ScalarNode& load) {
        all[load.buffer].as_memory = true;
      });
      memory(sums->result().view);
    } else if (const auto* attention = std::get_if<Attention>(&step)) {
      VisitArrays(*attention, [&](const View& view, bool) { memory(view); });
    } else if (const auto* order = std::get_if<RowOrder>(&step)) {
      for (const View* view : {&order->x, &order->values, &order->places})
        memory(*view);
    } else {
      all[std::get<Fill>(step).buffer].as_memory = true;
    }
  }
  for (const ProgramOutput& output : program.outputs) {
    if (const auto* view = std::get_if<View>(&output.what)) memory(*view);
  }
  return all;
}

}  // namespace kiln
