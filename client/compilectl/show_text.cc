#include "client/compilectl/show_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/plan/plan_text.h"

namespace kiln {
namespace {

std::string HeadText(const wire::ShowReply& reply) {
  const wire::Entry& entry = reply.entry();
  std::string text =
      absl::StrCat("key      ", LongKey(entry.compile_key()), "\ngraph    ",
                   entry.graph_name(), "\ntarget   ", entry.target(),
                   "\nsize     ", BytesText(entry.bytes()), "\n");
  if (entry.pinned()) absl::StrAppend(&text, "pinned   yes\n");
  for (const std::string& guard : entry.guards()) {
    absl::StrAppend(&text, "guard    ", guard, "\n");
  }
  for (const wire::Counter& counter : reply.artifact().compiled().counters()) {
    absl::StrAppend(&text, "counter  ", counter.name(), " = ", counter.value(),
                    "\n");
  }
  return text;
}

std::string KernelsText(const wire::LaunchPlan& plan) {
  std::string text;
  for (const wire::PlanKernel& kernel : plan.kernels()) {
    absl::StrAppend(&text, kernel.label(), "  from ",
                    absl::StrJoin(kernel.origins(), ", "), "\n", kernel.text(),
                    "\n");
  }
  return text;
}

}  // namespace

std::string ShowText(const wire::ShowReply& reply, ShowWhat what) {
  const wire::CompilePlan& compiled = reply.artifact().compiled();
  std::string text = HeadText(reply);
  switch (what) {
    case ShowWhat::kPlan:
      return absl::StrCat(text,
                          PlanText(compiled.plan(), KernelTexts::kWithout));
    case ShowWhat::kKernels:
      return absl::StrCat(text, KernelsText(compiled.plan()));
    case ShowWhat::kSources:
      for (const wire::TranslationUnit& unit : compiled.units()) {
        absl::StrAppend(&text, "// unit ", ShortKey(unit.digest()), "\n",
                        unit.source(), "\n");
      }
      return text;
    case ShowWhat::kTrace:  // ShowTrace
      break;
  }
  return text;
}

}  // namespace kiln
