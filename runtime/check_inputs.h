#ifndef KILN_RUNTIME_CHECK_INPUTS_H_
#define KILN_RUNTIME_CHECK_INPUTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/device.h"
#include "runtime/input_view.h"
#include "runtime/plan.h"
#include "runtime/tensor.h"

// The looks a call takes at its inputs. They allocate only to say what is
// wrong. Where the guard table of a client has looked before, BindSymbols and
// CheckAddresses are all that is left; the rest keeps a mistaken caller from
// reading past the end of a tensor.

namespace kiln {

// What a guard table and the checks below must see alike.

// The value of a symbol of `input`, which has the kind and rank that the plan
// says. One that a step binds has none yet: 0.
int64_t SymbolValue(const PlanSymbol& symbol, const InputView& input);

// Whether a tensor has no element: then neither a stride nor the address of it
// matters to anybody.
bool IsEmpty(const InputView& tensor);

// Whether it matters how far elements of dimension `dim` lie apart: there are at
// least two, as far as PyTorch is concerned.
bool StrideMatters(const InputView& tensor, int dim);

// The guards that an artifact relies on, by the symbols' values.
//
// GUARD_FAILED with the guard and who took it
absl::Status CheckGuards(absl::Span<const PlanGuard> guards,
                         absl::Span<const int64_t> symbols);

// That tensors have as many strides as sizes, and are where `device` can reach
// them.
//
// GUARD_FAILED naming the input
absl::Status CheckPlaces(absl::Span<const InputValue> inputs,
                         const DeviceTraits& device);

// The number of inputs, their kinds and ranks.
//
// GUARD_FAILED naming the input, what was found and what is due
absl::Status CheckKinds(const Plan& plan, absl::Span<const InputView> inputs);

// Reads the symbols that have a source among the inputs, whose kinds and ranks
// are right, and checks the symbols' ranges.
//
// GUARD_FAILED naming the input, what was found and what is due
absl::Status BindSymbols(const Plan& plan, absl::Span<const InputView> inputs,
                         absl::Span<int64_t> symbols);

// What no guard says of tensors: that they have an address. CheckInputs does it
// too.
//
// GUARD_FAILED naming the input
absl::Status CheckAddresses(absl::Span<const InputView> inputs);

// Checks dtype, sizes, strides, address and alignment of each tensor and the
// value of each integer, once the plan's expressions have their `values`. The
// stride of a dimension of one element does not matter; no stride and no
// address of an empty tensor does.
//
// GUARD_FAILED naming the input, what was found and what is due
absl::Status CheckInputs(const Plan& plan, absl::Span<const InputView> inputs,
                         absl::Span<const int64_t> values);

}  // namespace kiln

#endif  // KILN_RUNTIME_CHECK_INPUTS_H_
