#include "runtime/plan_graphs/call_key.h"

namespace kiln {
namespace {

constexpr int64_t kOrdinals = 1 << 16;
constexpr int64_t kPlaces = 8 * kOrdinals;

int64_t PlaceOf(DeviceKind kind, int ordinal) {
  return static_cast<int64_t>(kind) * kOrdinals + ordinal;
}

int64_t ValueOf(const wire::SymbolSource& source, const InputView& input) {
  const bool in_range =
      input.is_tensor && static_cast<int64_t>(source.dim()) < input.rank;
  if (source.kind() == wire::SymbolSource::KIND_SIZE) {
    return in_range ? input.sizes[source.dim()] : 0;
  }
  if (source.kind() == wire::SymbolSource::KIND_STRIDE) {
    return in_range ? input.strides[source.dim()] : 0;
  }
  return input.number;
}

}  // namespace

CallKey::CallKey(const wire::LaunchPlan& plan, const DeviceTraits& device)
    : device_(device), reads_offset_(plan.inputs_size()) {
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

CallKey::Head CallKey::HeadOf(size_t input, const InputView& view) const {
  if (!view.is_tensor) return {view.number, -1, 0};
  const int64_t place =
      view.tensor == nullptr
          ? PlaceOf(device_.kind, device_.ordinal)
          : PlaceOf(view.tensor->device, view.tensor->device_ordinal);
  return {ReadsOffset(input) ? view.number : 0, view.rank,
          static_cast<int64_t>(view.dtype) * kPlaces + place};
}

std::vector<int64_t> CallKey::Of(const PlanCall& call) const {
  std::vector<int64_t> key;
  size_t input = 0;
  call.ForEachView([&](const InputView& view) {
    const Head head = HeadOf(input++, view);
    key.insert(key.end(), {head.number, head.rank, head.type});
    if (!view.is_tensor) return true;
    key.insert(key.end(), view.sizes, view.sizes + view.rank);
    key.insert(key.end(), view.strides, view.strides + view.rank);
    return true;
  });
  return key;
}

bool CallKey::IsOf(const PlanCall& call, absl::Span<const int64_t> key) const {
  const int64_t* at = key.data();
  const int64_t* const end = at + key.size();
  size_t input = 0;
  return call.ForEachView([&](const InputView& view) {
    const Head head = HeadOf(input++, view);
    const int64_t dims = view.is_tensor ? view.rank : 0;
    if (end - at < 3 + 2 * dims || at[0] != head.number || at[1] != head.rank ||
        at[2] != head.type) {
      return false;
    }
    at += 3;
    for (int64_t d = 0; d < dims; ++d) {
      if (at[d] != view.sizes[d] || at[dims + d] != view.strides[d]) {
        return false;
      }
    }
    at += 2 * dims;
    return true;
  }) && at == end;
}

std::vector<int64_t> CallKey::Symbols(const PlanCall& call) const {
  std::vector<int64_t> values;
  for (const wire::SymbolSource& source : symbols_) {
    const bool is_there = source.input() < call.size();
    values.push_back(is_there ? ValueOf(source, call.view(source.input())) : 0);
  }
  return values;
}

}  // namespace kiln
