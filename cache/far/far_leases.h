#ifndef KILN_CACHE_FAR_FAR_LEASES_H_
#define KILN_CACHE_FAR_FAR_LEASES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/digest.h"
#include "proto/base/steady_time.h"

namespace kiln {

// What a lease is for: a job of a compile key.
struct LeaseName {
  Digest key;
  Digest job;
};

// Marks in a far store that say who makes something just now. Whoever has a lease
// may lose it at any time, and two may believe that they have it: nothing may
// depend on one but the work that is saved. Thread-safe.
//
// `token` tells one holder from all others. Every call ends by its deadline, with
// the errors of FarStore.
class FarLeases {
 public:
  virtual ~FarLeases() = default;

  // Whether `token` has the lease now, for `life`. False: another has it.
  virtual absl::StatusOr<bool> Take(const LeaseName& name,
                                    absl::string_view token,
                                    absl::Duration life,
                                    SteadyTime deadline) = 0;

  // From now on for `life`. False: it ran out, and may be another's.
  virtual absl::StatusOr<bool> Extend(const LeaseName& name,
                                      absl::string_view token,
                                      absl::Duration life,
                                      SteadyTime deadline) = 0;

  // One that another has meanwhile stays.
  virtual absl::Status GiveBack(const LeaseName& name, absl::string_view token,
                                SteadyTime deadline) = 0;
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_FAR_LEASES_H_
