#include "cache/unit_cache.h"

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

}  // namespace kiln
