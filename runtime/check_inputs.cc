#include "runtime/check_inputs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::Status Wrong(size_t input, absl::string_view what) {
  return MakeError(ErrorReason::kGuardFailed,
                   absl::StrCat("input ", input, ": ", what));
}

absl::Status CheckAddress(size_t i, const InputView& given) {
  if (given.data != nullptr || IsEmpty(given)) return absl::OkStatus();
  return Wrong(i, "has no address");
}

absl::Status CheckTensor(size_t i, const PlanTensorInput& due,
                         const InputView& given,
                         absl::Span<const int64_t> values) {
  if (given.dtype != due.dtype) {
    return Wrong(i, absl::StrCat("found ", ShortName(given.dtype), ", expected ",
                                 ShortName(due.dtype)));
  }
  RETURN_IF_ERROR(CheckAddress(i, given));
  for (size_t dim = 0; dim < due.sizes.size(); ++dim) {
    if (given.sizes[dim] != values[due.sizes[dim]]) {
      return Wrong(i, absl::StrCat("size ", dim, ": found ", given.sizes[dim],
                                   ", expected ", values[due.sizes[dim]]));
    }
  }
  if (IsEmpty(given)) return absl::OkStatus();
  for (size_t dim = 0; dim < due.strides.size(); ++dim) {
    if (given.strides[dim] != values[due.strides[dim]] &&
        StrideMatters(given, static_cast<int>(dim))) {
      return Wrong(i, absl::StrCat("stride ", dim, ": found ",
                                   given.strides[dim], ", expected ",
                                   values[due.strides[dim]]));
    }
  }
  if (reinterpret_cast<uintptr_t>(given.data) % due.alignment_bytes != 0) {
    return Wrong(i, absl::StrCat("its address is not a multiple of ",
                                 due.alignment_bytes, " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t SymbolValue(const PlanSymbol& symbol, const InputView& input) {
  switch (symbol.source) {
    case PlanSymbol::Source::kSize:
      return input.sizes[symbol.dim];
    case PlanSymbol::Source::kStride:
      return input.strides[symbol.dim];
    case PlanSymbol::Source::kOffset:
    case PlanSymbol::Source::kScalar:
      return input.number;
    case PlanSymbol::Source::kStep:
      break;
  }
  return 0;
}

bool IsEmpty(const InputView& tensor) {
  const int64_t* const end = tensor.sizes + tensor.rank;
  return std::find(tensor.sizes, end, 0) != end;
}

bool StrideMatters(const InputView& tensor, int dim) {
  return tensor.sizes[dim] != 1 && !IsEmpty(tensor);
}

absl::Status CheckGuards(absl::Span<const PlanGuard> guards,
                         absl::Span<const int64_t> symbols) {
  for (const PlanGuard& guard : guards) {
    if (guard.condition.Evaluate(symbols) != 0) continue;
    return MakeError(ErrorReason::kGuardFailed,
                     absl::StrCat("guard ", guard.condition.ToText(), " (",
                                  guard.origin, "): does not hold"));
  }
  return absl::OkStatus();
}

absl::Status CheckPlaces(absl::Span<const InputValue> inputs,
                         const DeviceTraits& device) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto* tensor = std::get_if<Tensor>(&inputs[i]);
    if (tensor == nullptr) continue;
    if (tensor->strides.size() != tensor->sizes.size()) {
      return Wrong(i, absl::StrCat("found ", tensor->strides.size(),
                                   " strides, expected as many as sizes, ",
                                   tensor->sizes.size()));
    }
    // A null device takes anybody's memory.
    if (device.kind != DeviceKind::kNull &&
        (tensor->device != device.kind ||
         tensor->device_ordinal != device.ordinal)) {
      return Wrong(i, absl::StrCat("expected on ", device.name, ":",
                                   device.ordinal,
                                   ", found on another device"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckKinds(const Plan& plan, absl::Span<const InputView> inputs) {
  if (inputs.size() != plan.inputs.size()) {
    return MakeError(ErrorReason::kGuardFailed,
                     absl::StrCat("inputs: found ", inputs.size(), ", expected ",
                                  plan.inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto* due = std::get_if<PlanTensorInput>(&plan.inputs[i]);
    if ((due != nullptr) != inputs[i].is_tensor) {
      return Wrong(i, due == nullptr ? "found a tensor, expected an integer"
                                     : "found an integer, expected a tensor");
    }
    if (due == nullptr) continue;
    if (static_cast<size_t>(inputs[i].rank) != due->sizes.size()) {
      return Wrong(i, absl::StrCat("found rank ", inputs[i].rank, ", expected ",
                                   due->sizes.size()));
    }
  }
  return absl::OkStatus();
}

absl::Status BindSymbols(const Plan& plan, absl::Span<const InputView> inputs,
                         absl::Span<int64_t> symbols) {
  for (size_t i = 0; i < plan.symbols.size(); ++i) {
    const PlanSymbol& symbol = plan.symbols[i];
    if (symbol.source == PlanSymbol::Source::kStep) continue;
    const int64_t value = SymbolValue(symbol, inputs[symbol.input]);
    if (value < symbol.min || value > symbol.max) {
      return Wrong(symbol.input,
                   absl::StrCat("symbol ", symbol.name, ": found ", value,
                                ", expected ", symbol.min, " to ", symbol.max));
    }
    symbols[i] = value;
  }
  return absl::OkStatus();
}

absl::Status CheckAddresses(absl::Span<const InputView> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].data != nullptr || !inputs[i].is_tensor) continue;
    RETURN_IF_ERROR(CheckAddress(i, inputs[i]));
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(const Plan& plan, absl::Span<const InputView> inputs,
                         absl::Span<const int64_t> values) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (const auto* due = std::get_if<PlanTensorInput>(&plan.inputs[i])) {
      RETURN_IF_ERROR(CheckTensor(i, *due, inputs[i], values));
      continue;
    }
    const int64_t due = values[std::get<PlanScalarInput>(plan.inputs[i]).value];
    if (inputs[i].number == due) continue;
    return Wrong(i,
                 absl::StrCat("found ", inputs[i].number, ", expected ", due));
  }
  return absl::OkStatus();
}

}  // namespace kiln
