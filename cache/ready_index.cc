#include "cache/ready_index.h"

#include "cache/entry_facts.h"
#include "cache/key_index.h"
#include "proto/base/status.h"

namespace kiln {

ReadyIndex::Row::Row(const wire::EntryFacts& facts)
    : id(IdOf(facts)),
      least_driver_cuda_version(facts.least_driver_cuda_version()),
      guards(facts.guards()),
      tuned(facts.tuned().begin(), facts.tuned().end()) {}

absl::StatusOr<std::shared_ptr<const ReadyIndex>> ReadReadyIndex(
    const Digest& key, const std::string& record) {
  ASSIGN_OR_RETURN(const auto read, ReadIndexRecord(key, record));
  auto index = std::make_shared<ReadyIndex>();
  index->cache_namespace = read->key().cache_namespace();
  index->entries.reserve(read->entries_size());
  for (const wire::EntryFacts& facts : read->entries()) {
    const ReadyIndex::Row& row = index->entries.emplace_back(facts);
    index->steps += row.guards.instructions() +
                    kStepsOfChoice * static_cast<int64_t>(row.tuned.size());
  }
  return index;
}

}  // namespace kiln
