#include "cache/unit_cache.h"

#include <utility>
#include <vector>

#include "proto/base/assemble.h"
#include "proto/base/status.h"

namespace kiln {

Digest UnitCache::Key(const Digest& unit, const wire::Target& target,
                      absl::string_view toolchain) {
  return Sha256()
      .AddField("kiln object 1")
      .Add(unit.bytes())
      .AddField(DeterministicBytes(target))
      .AddField(toolchain)
      .Finish();
}

std::optional<wire::ObjectCode> UnitCache::Lookup(const Digest& key) const {
  const absl::StatusOr<Blob> blob = store_.Get(key);
  wire::ObjectCode object;
  if (!blob.ok() || !object.ParseFromString(**blob)) return std::nullopt;
  usage_.Touch(key);
  return object;
}

absl::Status UnitCache::Insert(const Digest& key,
                               const wire::ObjectCode& object) {
  wire::ObjectCode stored = object;
  stored.clear_log();
  return store_.Put(key, DeterministicBytes(stored));
}

absl::StatusOr<int64_t> UnitCache::Bytes() const {
  int64_t total = 0;
  RETURN_IF_ERROR(store_.Scan([&total](const Digest&, int64_t bytes) {
    total += bytes;
    return absl::OkStatus();
  }));
  return total;
}

absl::StatusOr<int64_t> UnitCache::Clear() {
  std::vector<std::pair<Digest, int64_t>> objects;
  RETURN_IF_ERROR(store_.Scan([&objects](const Digest& key, int64_t bytes) {
    objects.emplace_back(key, bytes);
    return absl::OkStatus();
  }));
  int64_t total = 0;
  for (const auto& [key, bytes] : objects) {
    RETURN_IF_ERROR(store_.Delete(key));
    usage_.Forget(key);
    total += bytes;
  }
  return total;
}

}  // namespace kiln
