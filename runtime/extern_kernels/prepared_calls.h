#ifndef KILN_RUNTIME_EXTERN_KERNELS_PREPARED_CALLS_H_
#define KILN_RUNTIME_EXTERN_KERNELS_PREPARED_CALLS_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "proto/base/mutex.h"
#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// Calls that are in use, by their problems: a network repeats its layers, and
// 23 of ResNet-50's 53 convolutions differ. Keeps none alive. Thread-safe.
class PreparedCalls {
 public:
  // The call for `problem`, or null.
  std::shared_ptr<const PreparedCall> Find(const ExternProblem& problem) const
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    for (const Entry& entry : entries_) {
      if (entry.problem != problem) continue;
      if (auto call = entry.call.lock()) return call;
    }
    return nullptr;
  }

  void Add(const ExternProblem& problem,
           const std::shared_ptr<const PreparedCall>& call)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    if (entries_.size() >= look_at_) {
      entries_.erase(
          std::remove_if(entries_.begin(), entries_.end(),
                         [](const Entry& e) { return e.call.expired(); }),
          entries_.end());
      look_at_ = 2 * entries_.size() + kLeast;
    }
    entries_.push_back({problem, call});
  }

 private:
  static constexpr size_t kLeast = 64;
  struct Entry {
    ExternProblem problem;
    std::weak_ptr<const PreparedCall> call;
  };

  mutable Mutex mu_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mu_);
  // Entries at which those whose call is gone go too.
  size_t look_at_ ABSL_GUARDED_BY(mu_) = kLeast;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_PREPARED_CALLS_H_
