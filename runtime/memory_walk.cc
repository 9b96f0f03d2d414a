#include "runtime/memory_walk.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "runtime/caching_allocator.h"
#include "runtime/known_view.h"

namespace kiln {

// A caller's own result, `bytes` of memory; null where he makes none.
void* MemoryWalk::MakeResult(const WholeResult& result, int64_t bytes) const {
  if (options_.results == nullptr || result.output < 0) return nullptr;
  const KnownView known(*result.view, frame_);
  // A padded one is larger than its elements span.
  if (known.SpannedElements() * known.view().element_bytes != bytes) {
    return nullptr;
  }
  return options_.results->Make(
      result.output,
      {result.view->dtype, known.view().sizes, known.view().strides});
}

// "plan 3: y, step 2", where somebody has said whose memory it is.
std::string MemoryWalk::HolderOf(int32_t buffer) const {
  const absl::string_view plan = MemoryHolder::Of();
  if (plan.empty()) return "";
  return absl::StrCat(plan, ": ", plan_.plan->buffers[buffer].name, ", step ",
                      take_->step);
}

absl::Status MemoryWalk::Take(int32_t buffer) {
  const int64_t bytes = frame_.values[plan_.plan->buffers[buffer].bytes];
  frame_.bases[buffer] = nullptr;
  if (bytes <= 0) return absl::OkStatus();
  void* const made = MakeResult(plan_.whole_results[buffer], bytes);
  if (made != nullptr) {
    frame_.bases[buffer] = static_cast<char*>(made);
    return absl::OkStatus();
  }
  const std::string name = HolderOf(buffer);
  const MemoryHolder holder(name);
  Allocator& allocator = AllocatorOf(options_, *frame_.device);
  ASSIGN_OR_RETURN(void* const memory,
                   allocator.Allocate(bytes, options_.stream));
  frame_.owners[buffer] = std::shared_ptr<void>(
      memory,
      RunMemoryDeleter{&allocator, frame_.device, bytes, options_.stream});
  frame_.bases[buffer] = static_cast<char*>(memory);
  return absl::OkStatus();
}

}  // namespace kiln
