#ifndef KILN_CACHE_FAR_FAR_STORE_H_
#define KILN_CACHE_FAR_FAR_STORE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/far/far_leases.h"
#include "proto/base/digest.h"
#include "proto/base/steady_time.h"

namespace kiln {

// What a far record is stored under: an entry of a compile key, or a unit's
// object code under its own key.
struct FarName {
  Digest key;
  std::optional<Digest> entry;  // empty: a unit
};

// What a far store says of one entry under a key: its id and a hint
// (far_record.h), as they came.
struct FarHint {
  std::string id;
  std::string hint;
  // Empty where the store keeps it elsewhere: Get has it.
  std::string record;
};

// A store that other machines share, over a network. It may lose anything at any
// time, and what it answers is not to be trusted. Thread-safe.
//
// Every call ends by its deadline. Errors of all:
//   UNAVAILABLE STORAGE, PERMISSION_DENIED PERMISSION  it cannot be asked
//   DEADLINE_EXCEEDED                                  it did not answer in time
//   DATA_LOSS ARTIFACT_CORRUPT                         its answer makes no sense
class FarStore {
 public:
  virtual ~FarStore() = default;

  // Makes connections for the first asks, which have less time than a cold one may
  // take; asks work without. The error of a server that cannot be asked.
  virtual absl::Status Connect(SteadyTime /*deadline*/) {
    return absl::OkStatus();
  }

  // Of the entries under the key, at most kMaxEntriesPerKey; none is fine.
  virtual absl::StatusOr<std::vector<FarHint>> Hints(const Digest& key,
                                                     SteadyTime deadline) = 0;

  // NOT_FOUND. OUT_OF_RANGE TOO_LARGE for a record over the store's limit.
  virtual absl::StatusOr<std::string> Get(const FarName& name,
                                          SteadyTime deadline) = 0;

  // Stores the record and, of an entry, its hint beside those that are there.
  virtual absl::Status Put(const FarName& name, absl::string_view hint,
                           absl::string_view record, SteadyTime deadline) = 0;

  // Whether an error means that nothing was asked, since the store did not answer
  // lately.
  virtual bool WasLeftAlone(const absl::Status& status) const = 0;

  // Null where it has none. Live as long as the store.
  virtual FarLeases* leases() { return nullptr; }
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_FAR_STORE_H_
