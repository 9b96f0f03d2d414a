#include "cache/far/far_budget.h"

#include <algorithm>
#include <utility>

namespace kiln {

FarBudget::FarBudget(std::map<std::string, int64_t> budgets,
                     absl::Duration life)
    : budgets_(std::move(budgets)),
      part_(std::max(life / (kParts - 1), absl::Milliseconds(1))) {}

int64_t FarBudget::PartOf(SteadyTime now) const {
  return Between(begun_, now) / part_;
}

FarBudget::Written& FarBudget::At(absl::string_view cache_namespace,
                                  SteadyTime now) {
  Written& written = written_[std::string(cache_namespace)];
  const int64_t part = PartOf(now);
  const int64_t passed = std::min<int64_t>(part - written.last_part, kParts);
  for (int64_t i = 1; i <= passed; ++i) {
    int64_t& bytes = written.bytes[(written.last_part + i) % kParts];
    written.total -= bytes;
    bytes = 0;
  }
  written.last_part = std::max(written.last_part, part);
  return written;
}

bool FarBudget::Fits(absl::string_view cache_namespace, int64_t bytes,
                     SteadyTime now) {
  auto budget = budgets_.find(std::string(cache_namespace));
  if (budget == budgets_.end()) budget = budgets_.find("*");
  if (budget == budgets_.end()) return true;
  return At(cache_namespace, now).total + bytes <= budget->second;
}

void FarBudget::Spend(absl::string_view cache_namespace, int64_t bytes,
                      SteadyTime now) {
  if (budgets_.empty()) return;
  Written& written = At(cache_namespace, now);
  written.bytes[written.last_part % kParts] += bytes;
  written.total += bytes;
}

}  // namespace kiln
