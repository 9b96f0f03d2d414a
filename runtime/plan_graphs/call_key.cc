#include "runtime/plan_graphs/call_key.h"

namespace kiln {
namespace {

int64_t ValueOf(const wire::SymbolSource& source, const PlanCall& call) {
  const InputView input = call.view(source.input());
  if (source.kind() == wire::SymbolSource::KIND_SIZE) {
    return input.sizes[source.dim()];
  }
  if (source.kind() == wire::SymbolSource::KIND_STRIDE) {
    return input.strides[source.dim()];
  }
  return input.number;
}

}  // namespace

CallKey::CallKey(const wire::LaunchPlan& plan)
    : reads_offset_(plan.inputs_size()) {
  for (const wire::PlanSymbol& symbol : plan.symbols()) {
    const wire::SymbolSource& source = symbol.source();
    if (source.kind() == wire::SymbolSource::KIND_STEP) continue;
    symbols_.push_back(source);
    if (source.kind() == wire::SymbolSource::KIND_OFFSET &&
        source.input() < reads_offset_.size()) {
      reads_offset_[source.input()] = true;
    }
  }
}

std::vector<int64_t> CallKey::Of(const PlanCall& call) const {
  std::vector<int64_t> key;
  for (const wire::SymbolSource& source : symbols_) {
    key.push_back(ValueOf(source, call));
  }
  return key;
}

bool CallKey::IsOf(const PlanCall& call, absl::Span<const int64_t> key) const {
  for (size_t i = 0; i < symbols_.size(); ++i) {
    if (key[i] != ValueOf(symbols_[i], call)) return false;
  }
  return true;
}

}  // namespace kiln
