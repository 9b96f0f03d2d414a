#ifndef KILN_CACHE_NAMESPACE_TOTALS_H_
#define KILN_CACHE_NAMESPACE_TOTALS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "cache/storage_budgets.h"
#include "proto/base/mutex.h"

namespace kiln {

// What each namespace has stored and pinned. A namespace with entries has a small
// number, which is another's once its last entry is gone. Thread-safe.
class NamespaceTotals {
 public:
  // Numbers are below this. 0 is that of the empty name, and of those for which
  // none is left.
  static constexpr uint32_t kNumbers = uint32_t{1} << 24;

  explicit NamespaceTotals(StorageBudgets budgets)
      : budgets_(std::move(budgets)) {}

  // An entry more, or less, of so many bytes. The number of its namespace.
  uint32_t Enter(const std::string& cache_namespace, int64_t bytes)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Leave(uint32_t number, int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);

  // An entry of the namespace is pinned, or no longer. Pinned ones have half of each
  // budget at most, so that eviction finds what it may take:
  // OUT_OF_RANGE TOO_LARGE beyond.
  absl::Status Pin(uint32_t number, int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);
  // The same whatever the budgets say, of what was pinned before.
  void KeepPinned(uint32_t number, int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);
  void Unpin(uint32_t number, int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);

  std::optional<uint32_t> NumberOf(const std::string& cache_namespace) const
      ABSL_LOCKS_EXCLUDED(mu_);
  std::map<std::string, int64_t> Bytes() const ABSL_LOCKS_EXCLUDED(mu_);
  // Entries.
  int64_t pinned() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Held {
    std::string name;
    int64_t entries = 0;
    int64_t bytes = 0;
    int64_t pinned_bytes = 0;
  };

  const StorageBudgets budgets_;
  mutable Mutex mu_;
  std::vector<Held> held_ ABSL_GUARDED_BY(mu_) = std::vector<Held>(1);
  std::map<std::string, uint32_t> numbers_ ABSL_GUARDED_BY(mu_);
  std::vector<uint32_t> free_ ABSL_GUARDED_BY(mu_);
  int64_t pinned_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t pinned_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kiln

#endif  // KILN_CACHE_NAMESPACE_TOTALS_H_
