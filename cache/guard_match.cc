#include "cache/guard_match.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

bool Holds(const SymProgram& program, absl::Span<const int64_t> values) {
  if (static_cast<int64_t>(values.size()) < program.symbols_needed())
    return false;
  const absl::StatusOr<int64_t> value = program.EvaluateChecked(values);
  return value.ok() && *value != 0;
}

bool Holds(const wire::SymGuard& guard, absl::Span<const int64_t> values) {
  const auto program = SymProgram::FromWire(guard.condition(), values.size());
  return program.ok() && Holds(*program, values);
}

}  // namespace

GuardPrograms::GuardPrograms(const wire::GuardSet& guards) {
  programs_.reserve(guards.symbols_size());
  for (const wire::SymGuard& guard : guards.symbols()) {
    auto program = SymProgram::FromWire(guard.condition(),
                                        std::numeric_limits<int64_t>::max());
    if (!program.ok()) {
      sound_ = false;
      instructions_ = 0;
      programs_ = {};
      return;
    }
    instructions_ += std::max(1, guard.condition().code_size());
    programs_.push_back(*std::move(program));
  }
}

bool GuardPrograms::Hold(absl::Span<const int64_t> values) const {
  return sound_ && std::all_of(programs_.begin(), programs_.end(),
                               [values](const SymProgram& program) {
                                 return Holds(program, values);
                               });
}

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
