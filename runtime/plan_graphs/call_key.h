#ifndef KILN_RUNTIME_PLAN_GRAPHS_CALL_KEY_H_
#define KILN_RUNTIME_PLAN_GRAPHS_CALL_KEY_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "proto/artifact.pb.h"
#include "runtime/device.h"
#include "runtime/plan_graphs/plan_recorder.h"

namespace kiln {

// What a plan's recordings differ by: all of a call that the plan looks at but
// addresses. Of each input its dtype, its device, sizes and strides, an integer's
// value, and a tensor's storage offset where a symbol of the plan is bound to it.
class CallKey {
 public:
  CallKey(const wire::LaunchPlan& plan, const DeviceTraits& device);

  std::vector<int64_t> Of(const PlanCall& call) const;
  bool IsOf(const PlanCall& call, absl::Span<const int64_t> key) const;

  // Of the plan's symbols that inputs have, in their order.
  std::vector<int64_t> Symbols(const PlanCall& call) const;
  bool has_symbols() const { return !symbols_.empty(); }
  bool ReadsOffset(size_t input) const {
    return input < reads_offset_.size() && reads_offset_[input];
  }

 private:
  // What comes before the sizes: number, rank, dtype and device.
  struct Head {
    int64_t number, rank, type;
  };
  Head HeadOf(size_t input, const InputView& view) const;

  const DeviceTraits& device_;
  std::vector<wire::SymbolSource> symbols_;
  std::vector<bool> reads_offset_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_PLAN_GRAPHS_CALL_KEY_H_
