#include "compiler/codegen/write_combined.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/combined_bodies.h"
#include "compiler/codegen/combined_dialects.h"
#include "compiler/codegen/kernel_body.h"
#include "compiler/codegen/kernel_names.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<KernelSource> WriteCombinedKernel(
    const CombinedKernel& combined, const std::vector<Buffer>& buffers,
    const ShapeEnv& shapes, const Target& target) {
  ASSIGN_OR_RETURN(const std::vector<CombinedBody> bodies,
                   BodiesOf(combined, buffers, shapes));
  for (const CombinedBody& body : bodies) {
    const KernelVariant& variant = body.kernel.variant;
    if ((std::holds_alternative<CudaPoints>(variant) ||
         std::holds_alternative<CpuPoints>(variant)) &&
        body.facts.reduced == 0 && !body.facts.has_scan &&
        !body.facts.has_atomic && !body.facts.uses_seed) {
      continue;
    }
    return absl::InternalError("a part that is not pointwise");
  }
  KernelSource source;
  source.waits_for_work_before = target.dependent_launch;
  if (target.kind == TargetKind::kCuda) {
    RETURN_IF_ERROR(WriteCudaCombined(bodies, buffers, target, source));
  } else {
    RETURN_IF_ERROR(WriteCpuCombined(bodies, buffers, source));
  }
  source.symbol = KernelSymbol(combined.label, source.text);
  source.text =
      absl::StrReplaceAll(source.text, {{kSymbolPlaceholder, source.symbol}});
  return source;
}

}  // namespace kiln
