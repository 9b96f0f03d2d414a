#include "compiler/schedule/kernel_plan_text.h"

#include "absl/strings/str_cat.h"
#include "compiler/loop/loop_text.h"

namespace kiln {

namespace {

std::string AttributeText(const Attribute& attribute) {
  std::string out = absl::StrCat(attribute.name, "=");
  if (const auto* i = std::get_if<int64_t>(&attribute.value)) {
    absl::StrAppend(&out, *i);
  } else if (const auto* f = std::get_if<double>(&attribute.value)) {
    absl::StrAppend(&out, "float ", NumberText(*f));
  } else if (const auto* s = std::get_if<std::string>(&attribute.value)) {
    absl::StrAppend(&out, "\"", *s, "\"");
  } else {
    const auto& ints = std::get<std::vector<SymExpr>>(attribute.value);
    absl::StrAppend(&out, DimsText(DimVector(ints.begin(), ints.end())));
  }
  return out;
}

std::string ToText(const LibraryCall& call,
                   const std::vector<Buffer>& buffers) {
  std::string out = absl::StrCat("call ", call.name, " from ", call.origin, " ",
                                 ViewsText(call.inputs, buffers), " -> ",
                                 ViewsText(call.outputs, buffers));
  for (const Attribute& attribute : call.attributes)
    absl::StrAppend(&out, " ", AttributeText(attribute));
  return out;
}

std::string ToText(const Workspace& workspace,
                   const std::vector<Buffer>& buffers) {
  if (workspace.partials == kNoBuffer) return "";
  return absl::StrCat(" workspace ", buffers[workspace.partials].name, " ",
                      buffers[workspace.counters].name);
}

}  // namespace

std::string ToText(const PlannedKernel& kernel,
                   const std::vector<Buffer>& buffers) {
  return absl::StrCat("  kernel ", kernel.label, " ", ToText(kernel.variant),
                      ToText(kernel.workspace, buffers), " {\n",
                      ToText(kernel.nest, buffers, 4), "  }\n");
}

std::string ToText(const CombinedKernel& kernel,
                   const std::vector<Buffer>& buffers) {
  std::string out = absl::StrCat("  kernel ", kernel.label, " {\n");
  for (const PlannedKernel& part : kernel.parts) {
    absl::StrAppend(&out, "    part ", ToText(part.variant), " {\n",
                    ToText(part.nest, buffers, 6), "    }\n");
  }
  return absl::StrCat(out, "  }\n");
}

std::string ToText(const FlashKernel& kernel,
                   const std::vector<Buffer>& buffers) {
  return absl::StrCat("  kernel ", kernel.label, " ", ToText(kernel.variant),
                      " part ", PartName(kernel.part),
                      kernel.sums == kNoBuffer
                          ? ""
                          : absl::StrCat(" sums ", buffers[kernel.sums].name),
                      " {\n", ToText(kernel.attention, buffers, 4), "  }\n");
}

std::string ToText(const KernelPlan& plan) {
  std::string out =
      absl::StrCat("plan @", plan.name, SymbolsText(plan.shapes), " {\n");
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    absl::StrAppend(&out, "  ", ToText(plan.buffers[b]));
    const BufferPlacement& placement = plan.placements[b];
    if (placement.in_arena) {
      absl::StrAppend(&out, " at ", placement.offset_bytes.ToString(),
                      " bytes ", placement.bytes.ToString());
    } else if (placement.own >= 0) {
      absl::StrAppend(&out, " own ", placement.own, " bytes ",
                      placement.bytes.ToString());
    }
    absl::StrAppend(&out, "\n");
  }
  for (const PlannedStep& step : plan.steps) {
    if (const auto* kernel = std::get_if<PlannedKernel>(&step)) {
      absl::StrAppend(&out, ToText(*kernel, plan.buffers));
    } else if (const auto* all = std::get_if<CombinedKernel>(&step)) {
      absl::StrAppend(&out, ToText(*all, plan.buffers));
    } else if (const auto* flash = std::get_if<FlashKernel>(&step)) {
      absl::StrAppend(&out, ToText(*flash, plan.buffers));
    } else if (const auto* call = std::get_if<LibraryCall>(&step)) {
      absl::StrAppend(&out, "  ", ToText(*call, plan.buffers), "\n");
    } else {
      absl::StrAppend(&out, "  ", StepText(std::get<Fill>(step), plan.buffers),
                      "\n");
    }
  }
  for (const uint32_t input : plan.mutated_inputs) {
    absl::StrAppend(&out, "  mutates ", input, "\n");
  }
  for (const ProgramOutput& output : plan.outputs) {
    absl::StrAppend(&out, "  return ", OutputText(output, plan.buffers), "\n");
  }
  return absl::StrCat(out, "  arena ", plan.arena_bytes.ToString(),
                      " bytes, peak live ", plan.peak_live_bytes, "\n}\n");
}

}  // namespace kiln
