#include "client/corpus_runner/plan_figures.h"

#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/sym_eval.h"

namespace kiln {
namespace {

int64_t ValueOf(const wire::SymExpr& expr,
                const std::vector<int64_t>& symbols) {
  const absl::StatusOr<SymProgram> program =
      SymProgram::FromWire(expr, static_cast<int64_t>(symbols.size()));
  return program.ok() ? program->Evaluate(symbols) : 0;
}

}  // namespace

PlanFigures FiguresOf(const wire::Artifact& artifact,
                      const std::vector<int64_t>& symbols,
                      const std::vector<int64_t>& classes) {
  const wire::LaunchPlan& plan = artifact.compiled().plan();
  PlanFigures out;
  for (const wire::PlanStep& step : plan.steps()) {
    if (step.has_launch()) {
      ++out.kernels;
      if (step.launch().kernel() < static_cast<uint32_t>(plan.kernels_size())) {
        const wire::PlanKernel& kernel = plan.kernels(step.launch().kernel());
        out.bytes_moved += ValueOf(kernel.bytes_read(), symbols) +
                           ValueOf(kernel.bytes_written(), symbols);
      }
    }
    if (step.has_copy()) ++out.copies;
    if (step.has_fill()) ++out.fills;
    if (step.has_extern_call()) ++out.externs;
  }
  out.arena_bytes = ValueOf(plan.arena_bytes(), symbols);
  out.planned_arena_bytes = ValueOf(plan.arena_bytes(), classes);
  out.peak_live_bytes = static_cast<int64_t>(plan.peak_live_bytes());
  for (const wire::ObjectCode& object : artifact.objects()) {
    out.object_bytes += static_cast<int64_t>(object.image().size());
  }
  return out;
}

}  // namespace kiln
