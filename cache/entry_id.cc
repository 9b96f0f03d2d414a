#include "cache/entry_id.h"

#include "proto/base/assemble.h"

namespace kiln {

Digest EntryId(const Digest& key, const wire::GuardSet& guards,
               absl::Span<const std::string> tuned) {
  Sha256 sha;
  sha.AddField("kiln entry 2").Add(key.bytes());
  sha.AddField(DeterministicBytes(guards)).AddNumber(tuned.size());
  for (const std::string& decision : tuned) sha.AddField(decision);
  return sha.Finish();
}

}  // namespace kiln
