#ifndef KILN_RUNTIME_CHECK_INPUTS_H_
#define KILN_RUNTIME_CHECK_INPUTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/device.h"
#include "runtime/input_view.h"
#include "runtime/plan.h"
#include "runtime/tensor.h"

// Checks the inputs of a call. They allocate only to report an error. If a client's guard
// table has checked the inputs, BindSymbols and CheckAddresses are enough; the other
// checks keep a wrong call from reading past the end of a tensor.

namespace kiln {

// Shared by guard tables and the checks below, which must agree.

// The value of a symbol that `input` binds. `input` must have the plan's kind and rank.
// 0 if a step binds the symbol, since its value is not known yet.
int64_t SymbolValue(const PlanSymbol& symbol, const InputView& input);

// Whether a tensor has no elements. Then its strides and address do not matter.
bool IsEmpty(const InputView& tensor);

// Whether the stride of dimension `dim` matters: the tensor has elements, and the size is
// not 1. PyTorch has the same rule.
bool StrideMatters(const InputView& tensor, int dim);

// Checks an artifact's guards for the values of its symbols.
//
// GUARD_FAILED with the guard and its origin
absl::Status CheckGuards(absl::Span<const PlanGuard> guards,
                         absl::Span<const int64_t> symbols);

// Checks that tensors have as many strides as sizes, and are on `device`.
//
// GUARD_FAILED naming the input
absl::Status CheckPlaces(absl::Span<const InputValue> inputs,
                         const DeviceTraits& device);

// Checks the number of inputs, their kinds and ranks.
//
// GUARD_FAILED naming the input, what was found and what was expected
absl::Status CheckKinds(const Plan& plan, absl::Span<const InputView> inputs);

// Reads the values of the symbols that inputs bind, and checks their ranges. Call
// CheckKinds first.
//
// GUARD_FAILED naming the input, what was found and what was expected
absl::Status BindSymbols(const Plan& plan, absl::Span<const InputView> inputs,
                         absl::Span<int64_t> symbols);

// Checks that tensors that have elements have an address, which no guard covers.
// CheckInputs checks it too.
//
// GUARD_FAILED naming the input
absl::Status CheckAddresses(absl::Span<const InputView> inputs);

// Checks dtype, sizes, strides, address and alignment of each tensor, and the value of
// each integer. `values`: of the plan's expressions. The stride of a dimension of size 1
// is not checked, and neither are the strides and address of an empty tensor.
//
// GUARD_FAILED naming the input, what was found and what was expected
absl::Status CheckInputs(const Plan& plan, absl::Span<const InputView> inputs,
                         absl::Span<const int64_t> values);

}  // namespace kiln

#endif  // KILN_RUNTIME_CHECK_INPUTS_H_
