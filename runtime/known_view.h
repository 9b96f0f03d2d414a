#ifndef KILN_RUNTIME_KNOWN_VIEW_H_
#define KILN_RUNTIME_KNOWN_VIEW_H_

#include <algorithm>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "runtime/call_frame.h"
#include "runtime/device.h"
#include "runtime/plan.h"

namespace kiln {

// Sizes and strides of a view of a plan, worked out. No allocation up to six
// dimensions. Stays where it is made.
class KnownView {
 public:
  KnownView(const PlanView& from, const CallFrame& frame) {
    for (const ExprId id : from.sizes) sizes_.push_back(frame.values[id]);
    for (const ExprId id : from.strides) strides_.push_back(frame.values[id]);
    view_.element_bytes = SizeInBytes(from.dtype);
    view_.data = frame.bases[from.buffer] +
                 frame.values[from.offset] * view_.element_bytes;
    view_.sizes = sizes_;
    view_.strides = strides_;
  }
  KnownView(const KnownView&) = delete;
  KnownView& operator=(const KnownView&) = delete;

  const StridedView& view() const { return view_; }

  bool IsEmpty() const {
    return std::find(sizes_.begin(), sizes_.end(), 0) != sizes_.end();
  }

  // Elements from the first to the last, of a view that has some.
  int64_t SpannedElements() const {
    int64_t last = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      last += (sizes_[i] - 1) * strides_[i];
    }
    return last + 1;
  }

 private:
  absl::InlinedVector<int64_t, 6> sizes_;
  absl::InlinedVector<int64_t, 6> strides_;
  StridedView view_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_KNOWN_VIEW_H_
