#ifndef KILN_CACHE_ROW_TABLE_H_
#define KILN_CACHE_ROW_TABLE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"

namespace kiln {

// Small rows under a digest: what a daemon notes for itself. They are read
// together, and neither signed nor sized apart, unlike blobs (blob_store.h).
// Thread-safe.
class RowTable {
 public:
  using Rows = std::vector<std::pair<Digest, std::string>>;

  virtual ~RowTable() = default;

  // NOT_FOUND when absent. Errors as BlobStore::Get.
  virtual absl::StatusOr<std::string> Get(const Digest& key) const = 0;
  // All or none of them. Errors as BlobStore::Put.
  virtual absl::Status Put(const Rows& rows) = 0;
  // OK also when absent.
  virtual absl::Status Delete(const Digest& key) = 0;
  // In ascending order of the keys; rows that are damaged are passed by. A non-OK
  // from `visit` ends the walk and is returned.
  virtual absl::Status Visit(
      absl::FunctionRef<absl::Status(const Digest& key, absl::string_view row)>
          visit) const = 0;
};

// Rows in memory; gone with the process. Never fails.
class MemoryRows final : public RowTable {
 public:
  absl::StatusOr<std::string> Get(const Digest& key) const override {
    MutexLock lock(&mu_);
    const auto found = rows_.find(key);
    if (found == rows_.end()) return absl::NotFoundError(key.ShortHex());
    return found->second;
  }
  absl::Status Put(const Rows& rows) override {
    MutexLock lock(&mu_);
    for (const auto& [key, row] : rows) rows_[key] = row;
    return absl::OkStatus();
  }
  absl::Status Delete(const Digest& key) override {
    MutexLock lock(&mu_);
    rows_.erase(key);
    return absl::OkStatus();
  }
  absl::Status Visit(
      absl::FunctionRef<absl::Status(const Digest&, absl::string_view)> visit)
      const override {
    std::map<Digest, std::string> rows;
    {
      MutexLock lock(&mu_);
      rows = rows_;
    }
    for (const auto& [key, row] : rows) {
      const absl::Status visited = visit(key, row);
      if (!visited.ok()) return visited;
    }
    return absl::OkStatus();
  }

 private:
  mutable Mutex mu_;
  std::map<Digest, std::string> rows_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CACHE_ROW_TABLE_H_
