#ifndef KILN_CACHE_READ_ONCE_H_
#define KILN_CACHE_READ_ONCE_H_

#include <cstdint>
#include <iterator>
#include <limits>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "cache/blob_store.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"

namespace kiln {

// What was read out of records in memory: of the last `limit` that were asked for,
// and of `most_bytes` of records. It is of the very bytes that it was read from, and
// of no others under the same digest; it does not keep them. Thread-safe.
template <typename T>
class ReadOnce {
 public:
  explicit ReadOnce(int64_t limit,
                    int64_t most_bytes = std::numeric_limits<int64_t>::max())
      : limit_(limit), most_bytes_(most_bytes) {}

  // What `read` made of `record`, now or before. Errors are `read`'s, and are not
  // kept.
  template <typename Read>
  absl::StatusOr<std::shared_ptr<const T>> Get(const Digest& key,
                                               const Blob& record, Read read)
      ABSL_LOCKS_EXCLUDED(mu_) {
    {
      MutexLock lock(&mu_);
      const auto found = places_.find(key);
      if (found != places_.end() && IsOf(found->second->record, record)) {
        line_.splice(line_.begin(), line_, found->second);
        return found->second->made;
      }
    }
    absl::StatusOr<std::shared_ptr<const T>> made = read(record);
    if (!made.ok()) return made;
    Line gone;  // freed after the lock
    MutexLock lock(&mu_);
    const auto found = places_.find(key);
    if (found != places_.end()) Drop(found->second, gone);
    const auto bytes = static_cast<int64_t>(record->size());
    line_.push_front({key, record, *made, bytes});
    places_[key] = line_.begin();
    bytes_ += bytes;
    while (static_cast<int64_t>(line_.size()) > limit_ || bytes_ > most_bytes_)
      Drop(std::prev(line_.end()), gone);
    return made;
  }

 private:
  struct Row {
    Digest key;
    std::weak_ptr<const std::string> record;
    std::shared_ptr<const T> made;
    int64_t bytes = 0;  // of the record
  };
  using Line = std::list<Row>;

  void Drop(typename Line::iterator row, Line& gone)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    bytes_ -= row->bytes;
    places_.erase(row->key);
    gone.splice(gone.begin(), line_, row);
  }

  static bool IsOf(const std::weak_ptr<const std::string>& row,
                   const Blob& record) {
    return !row.owner_before(record) && !record.owner_before(row);
  }

  const int64_t limit_;
  const int64_t most_bytes_;
  Mutex mu_;
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;  // of all rows
  Line line_ ABSL_GUARDED_BY(mu_);          // the last used in front
  absl::flat_hash_map<Digest, typename Line::iterator> places_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CACHE_READ_ONCE_H_
