#include "cache/guard_match.h"

#include "absl/strings/str_cat.h"
#include "proto/base/sym_eval.h"

namespace kiln {
namespace {

bool Holds(const wire::SymGuard& guard, absl::Span<const int64_t> values) {
  const auto program = SymProgram::FromWire(guard.condition(), values.size());
  if (!program.ok()) return false;
  const absl::StatusOr<int64_t> value = program->EvaluateChecked(values);
  return value.ok() && *value != 0;
}

}  // namespace

bool GuardsHold(const wire::GuardSet& guards,
                absl::Span<const int64_t> values) {
  for (const wire::SymGuard& guard : guards.symbols()) {
    if (!Holds(guard, values)) return false;
  }
  return true;
}

wire::GuardSet GuardsBroken(const wire::GuardSet& guards,
                            absl::Span<const int64_t> values) {
  wire::GuardSet broken;
  for (const wire::SymGuard& guard : guards.symbols()) {
    if (!Holds(guard, values)) *broken.add_symbols() = guard;
  }
  return broken;
}

std::vector<std::string> GuardTexts(const wire::GuardSet& guards) {
  std::vector<std::string> texts;
  for (const wire::SymGuard& guard : guards.symbols()) {
    texts.push_back(SymExprText(guard.condition()));
    if (!guard.origin().empty()) {
      absl::StrAppend(&texts.back(), " (", guard.origin(), ")");
    }
  }
  return texts;
}

}  // namespace kiln
