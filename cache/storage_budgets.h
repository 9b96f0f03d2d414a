#ifndef KILN_CACHE_STORAGE_BUDGETS_H_
#define KILN_CACHE_STORAGE_BUDGETS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"

namespace kiln {

// What may be kept. 0, or nothing, where there is no bound.
struct StorageBudgets {
  // Of all that is on disk: entries and units with what is stored beside them.
  int64_t bytes = int64_t{10} << 30;
  int64_t entries = 0;
  // What was not used for so long goes.
  absl::Duration unused = absl::ZeroDuration();
  // Bytes of the entries of a namespace; "*" stands for each that is not named.
  std::map<std::string, int64_t> namespaces;

  int64_t BytesOf(const std::string& cache_namespace) const {
    auto budget = namespaces.find(cache_namespace);
    if (budget == namespaces.end()) budget = namespaces.find("*");
    return budget == namespaces.end() ? 0 : budget->second;
  }
};

}  // namespace kiln

#endif  // KILN_CACHE_STORAGE_BUDGETS_H_
