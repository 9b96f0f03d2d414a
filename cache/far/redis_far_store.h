#ifndef KILN_CACHE_FAR_REDIS_FAR_STORE_H_
#define KILN_CACHE_FAR_REDIS_FAR_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cache/far/far_store.h"
#include "cache/far/redis_cluster.h"
#include "cache/far/redis_leases.h"

namespace kiln {

// A record of at most this many bytes may stand in the index. Those of a CPU
// graph of some kernels have 30 to 40 KiB.
inline constexpr size_t kMaxRecordInIndex = size_t{64} << 10;

// Records in Redis, by key of 64 hexadecimal digits:
//
//   kiln:2:{KEY}:index      a hash, a field an entry's id (32 bytes):
//                           u32 size of the hint, little-endian | hint | record
//   kiln:2:{KEY}:entry:ID   the record of an entry whose field has none
//   kiln:2:{KEY}:unit       the record of a unit
//
// and the leases of redis_leases.h. An entry is a field of its own, so that two
// writers merge by union on the server. A key's only entry has its record in the
// field, if it is small: most keys have one entry, and a lookup is one round trip.
// The braces keep what belongs to one key on one node of a cluster. All of it ends
// by itself after a time. Thread-safe.
class RedisFarStore final : public FarStore {
 public:
  struct Options {
    std::vector<HostPort> seeds;  // at least one
    FarTlsFiles tls;
    std::string user;
    std::string password;
    // How long what is stored stays, from its last write on.
    absl::Duration ttl;
    int64_t max_record_bytes = 0;
  };

  explicit RedisFarStore(const Options& options);

  absl::Status Connect(SteadyTime deadline) override {
    return redis_.Connect(deadline);
  }
  absl::StatusOr<std::vector<FarHint>> Hints(const Digest& key,
                                             SteadyTime deadline) override;
  absl::StatusOr<std::string> Get(const FarName& name,
                                  SteadyTime deadline) override;
  absl::Status Put(const FarName& name, absl::string_view hint,
                   absl::string_view record, SteadyTime deadline) override;
  bool WasLeftAlone(const absl::Status& status) const override;
  FarLeases* leases() override { return &leases_; }

 private:
  // Whether the record goes into the field of the entry's hint.
  absl::StatusOr<bool> IsFieldOfIndex(const FarName& name,
                                      absl::string_view record,
                                      SteadyTime deadline);

  // Drops so many entries of a key, any of them: reading all to find the oldest
  // is not worth it.
  absl::Status Trim(const Digest& key, int64_t too_many, SteadyTime deadline);

  const std::string ttl_ms_;
  const int64_t max_record_bytes_;
  RedisCluster redis_;
  RedisLeases leases_;
};

// The three names, for tests and people.
std::string RedisIndexName(const Digest& key);
std::string RedisRecordName(const FarName& name);

}  // namespace kiln

#endif  // KILN_CACHE_FAR_REDIS_FAR_STORE_H_
