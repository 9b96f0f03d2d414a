#ifndef KILN_CACHE_FAR_REDIS_LEASES_H_
#define KILN_CACHE_FAR_REDIS_LEASES_H_

#include <string>

#include "cache/far/far_leases.h"
#include "cache/far/redis_cluster.h"

namespace kiln {

// Leases in Redis, beside the records of their key (redis_far_store.h):
//
//   kiln:2:{KEY}:lease:JOB   the token of the holder; ends by itself
//
// Taken with SET NX PX; extended and given back by scripts that compare the token
// on the server. Thread-safe.
class RedisLeases final : public FarLeases {
 public:
  // `redis` outlives this.
  explicit RedisLeases(RedisCluster& redis) : redis_(redis) {}

  absl::StatusOr<bool> Take(const LeaseName& name, absl::string_view token,
                            absl::Duration life, SteadyTime deadline) override;
  absl::StatusOr<bool> Extend(const LeaseName& name, absl::string_view token,
                              absl::Duration life,
                              SteadyTime deadline) override;
  absl::Status GiveBack(const LeaseName& name, absl::string_view token,
                        SteadyTime deadline) override;

 private:
  RedisCluster& redis_;
};

// For tests and people.
std::string RedisLeaseName(const LeaseName& name);

}  // namespace kiln

#endif  // KILN_CACHE_FAR_REDIS_LEASES_H_
