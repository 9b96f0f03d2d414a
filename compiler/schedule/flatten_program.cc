#include "compiler/schedule/flatten_program.h"

#include <utility>
#include <variant>

#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/kernel_labels.h"
#include "compiler/schedule/nest_price.h"
#include "compiler/schedule/write_calls.h"

namespace kiln {

KernelPlan FlattenAddresses(LoopProgram program) {
  KernelPlan plan;
  plan.name = std::move(program.name);
  plan.outputs = std::move(program.outputs);
  plan.mutated_inputs = std::move(program.mutated_inputs);
  plan.client_words = std::move(program.client_words);
  plan.tuned = std::move(program.tuned);
  plan.buffers.reserve(program.buffers.size());
  for (const Buffer& buffer : program.buffers)
    plan.buffers.push_back(FlatBuffer(buffer));
  plan.placements.resize(plan.buffers.size());
  for (LoopStep& step : program.steps) {
    if (auto* nest = std::get_if<LoopNest>(&step)) {
      FlattenAddresses(*nest, program.buffers);
      plan.steps.push_back(PlannedKernel{.nest = std::move(*nest)});
    } else if (const auto* sums = std::get_if<Contraction>(&step)) {
      plan.steps.push_back(CallOf(*sums, program.buffers, plan.shapes));
    } else if (const auto* attention = std::get_if<Attention>(&step)) {
      if (attention->own) {
        for (FlashKernel& kernel : FlashKernelsOf(*attention))
          plan.steps.push_back(std::move(kernel));
      } else {
        plan.steps.push_back(CallOf(*attention));
      }
    } else if (const auto* order = std::get_if<RowOrder>(&step)) {
      plan.steps.push_back(CallOf(*order));
    } else {
      plan.steps.push_back(std::get<Fill>(step));
    }
  }
  plan.shapes = std::move(program.shapes);
  LabelKernels(plan);
  return plan;
}

}  // namespace kiln
