#ifndef KILN_RUNTIME_MEMORY_EVENTS_H_
#define KILN_RUNTIME_MEMORY_EVENTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/plan.h"

// When a run takes memory and when it gives it back, step by step: results are
// allocated when they are first written, temporaries with memory of their own
// live from their first step to their last, and an input is the caller's again
// after the last step that touches it. So no more is held at once than what the
// steps at hand need, the arena and the workspace of library calls apart.

namespace kiln {

// In bytes. A parameter of a small layer is not worth a call.
inline constexpr int64_t kLeastInput = 1 << 20;

struct MemoryEvent {
  int32_t step = 0;
  int32_t subject = 0;  // number of a buffer, or of an input
};

// Each list is in order of steps.
struct MemoryEvents {
  // Buffers of the plan. `takes` before the step, which may be the one behind
  // the last; `gives` after it.
  std::vector<MemoryEvent> takes;
  std::vector<MemoryEvent> gives;
  // Tensor inputs that no result views, after the step; -1: no step touches it.
  // Not those that are known to be shorter than kLeastInput: it would not pay.
  std::vector<MemoryEvent> inputs_done;
};

// `earliest`: for each buffer the first step before which its size is known.
MemoryEvents EventsOf(const Plan& plan, absl::Span<const int32_t> earliest);

}  // namespace kiln

#endif  // KILN_RUNTIME_MEMORY_EVENTS_H_
