#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/c_api/c_handles.h"
#include "client/c_api/c_status.h"
#include "client/c_api/kiln.h"
#include "client/daemon_status.h"
#include "proto/artifact.pb.h"
#include "proto/base/status.h"
#include "proto/plan/plan_text.h"

// What a callable is made of, for those that show it.

namespace kiln {
namespace {

const wire::CompilePlan& PlanOf(const Executor& executor) {
  return executor.artifact().view().message().compiled();
}

std::string SourcesText(const wire::CompilePlan& compiled) {
  std::string text;
  for (const wire::TranslationUnit& unit : compiled.units()) {
    absl::StrAppend(&text, unit.source(), "\n");
  }
  return text;
}

std::string CountersText(const wire::CompilePlan& compiled) {
  std::string text;
  for (const wire::Counter& counter : compiled.counters()) {
    absl::StrAppend(&text, counter.name(), " ", counter.value(), "\n");
  }
  return text;
}

// A label is "STEM_NUMBER" (compiler/schedule/kernel_labels.h).
std::string KernelsText(const wire::LaunchPlan& plan) {
  std::string text;
  for (const wire::PlanKernel& kernel : plan.kernels()) {
    const size_t mark = kernel.label().rfind('_');
    absl::StrAppend(&text, kernel.symbol(), " ", kernel.label().substr(0, mark),
                    " ", kernel.label().substr(mark + 1), "\n");
  }
  return text;
}

bool ReadsSeed(const wire::LaunchPlan& plan) {
  for (const wire::PlanStep& step : plan.steps()) {
    for (const wire::KernelArg& arg : step.launch().args()) {
      if (arg.has_seed() || arg.has_seed_slot()) return true;
    }
  }
  return false;
}

// Nothing of OK.
std::string TextOf(const absl::Status& said) {
  if (said.ok()) return "";
  const std::optional<ErrorReason> reason = ReasonOf(said);
  return absl::StrCat(reason.has_value()
                          ? ReasonName(*reason)
                          : absl::StatusCodeToString(said.code()),
                      ": ", said.message());
}

std::string DaemonText(const CompileReport& report) {
  return report.by_local_worker ? TextOf(report.daemon_status) : "";
}

std::string TextOf(const Callable& callable, KilnText what) {
  const std::shared_ptr<const Executor> executor = callable.executor();
  const wire::CompilePlan& compiled = PlanOf(*executor);
  switch (what) {
    case KILN_TEXT_PLAN:
      return PlanText(compiled.plan());
    case KILN_TEXT_SOURCES:
      return SourcesText(compiled);
    case KILN_TEXT_COUNTERS:
      return CountersText(compiled);
    case KILN_TEXT_DAEMON:
      return DaemonText(callable.report());
    case KILN_TEXT_MEASURED:
      return TextOf(callable.report().measured);
    case KILN_TEXT_GUARDS:
      return absl::StrJoin(callable.failed_guards(), "\n");
    case KILN_TEXT_KERNELS:
      return KernelsText(compiled.plan());
    case KILN_TEXT_LIBRARY_CALLS:
      return absl::StrJoin(executor->LibraryCalls(), "\n");
    case KILN_TEXT_CONTRACTIONS:
      return absl::StrJoin(compiled.contractions(), "\n");
    case KILN_TEXT_KEY:
      return absl::BytesToHexString(
          executor->artifact().view().message().compile_key());
  }
  return "";
}

}  // namespace
}  // namespace kiln

KilnStatus* kiln_callable_report(const KilnCallable* callable,
                                 KilnReport* report) {
  absl::Status sound = kiln::CheckGiven("callable", callable);
  if (sound.ok()) sound = kiln::CheckGiven("report", report);
  if (sound.ok()) {
    sound = kiln::CheckAtLeast("report: struct_size",
                               static_cast<int64_t>(report->struct_size),
                               offsetof(KilnReport, daemon_lost));
  }
  if (!sound.ok()) return kiln::StatusOf(sound);
  const kiln::CompileReport found = callable->callable->report();
  KilnReport all = {};
  all.struct_size = report->struct_size;
  all.artifacts = callable->callable->compiles();
  all.by_local_worker = found.by_local_worker ? 1 : 0;
  all.served_from = found.by_local_worker
                        ? KILN_SERVED_FROM_COMPILE
                        : static_cast<KilnServedFrom>(found.served_from);
  all.compile_us = absl::ToInt64Microseconds(found.compile);
  all.load_us = absl::ToInt64Microseconds(found.load);
  all.units_built = found.units_built;
  all.units_cached = found.units_cached;
  all.daemon_lost =
      found.by_local_worker && (kiln::ConnectionLost(found.daemon_status) ||
                                kiln::DaemonIsSilent(found.daemon_status))
          ? 1
          : 0;
  const std::shared_ptr<const kiln::Executor> first =
      callable->callable->executor();
  all.reads_seed = kiln::ReadsSeed(kiln::PlanOf(*first).plan()) ? 1 : 0;
  std::memcpy(report, &all, std::min(report->struct_size, sizeof(all)));
  return nullptr;
}

size_t kiln_callable_text(const KilnCallable* callable, KilnText what,
                          char* buffer, size_t size) {
  const std::string text = kiln::TextOf(*callable->callable, what);
  if (size > 0) {
    const size_t copied = std::min(size - 1, text.size());
    std::memcpy(buffer, text.data(), copied);
    buffer[copied] = '\0';
  }
  return text.size();
}
