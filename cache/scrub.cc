#include "cache/scrub.h"

#include <string>
#include <utility>

#include "cache/key_index.h"
#include "cache/sound_entry.h"
#include "proto/base/status.h"
#include "proto/cache_entry.pb.h"

namespace kiln {
namespace {

// Keys that are read from the store at once: no iterator of the database is held
// while records are verified.
constexpr size_t kKeysAtOnce = 1000;

struct Chunk {
  std::vector<std::pair<Digest, int64_t>> keys;
  bool last = false;
};

absl::StatusOr<Chunk> ChunkFrom(const VerifiedBlobStore& store,
                                const Digest& from) {
  Chunk chunk;
  const absl::Status scanned =
      store.ScanFrom(from, [&chunk](const Digest& key, int64_t bytes) {
        chunk.keys.emplace_back(key, bytes);
        // The last one begins the next chunk too, and is visited there.
        return chunk.keys.size() > kKeysAtOnce ? absl::CancelledError()
                                               : absl::OkStatus();
      });
  chunk.last = scanned.ok();
  if (!scanned.ok() && !absl::IsCancelled(scanned)) return scanned;
  return chunk;
}

void Count(const absl::Status& found, ScrubReport& report) {
  const auto reason = ReasonOf(found);
  if (found.ok() || absl::IsNotFound(found)) return;
  if (reason == ErrorReason::kArtifactCorrupt ||
      reason == ErrorReason::kArtifactUntrusted) {
    ++report.damaged;
  } else if (reason == ErrorReason::kArtifactIncompatible) {
    ++report.other_versions;
  } else {
    ++report.unreadable;
  }
}

}  // namespace

// One run over a cache.
class Scrub::Walk {
 public:
  Walk(const Rooms& rooms, bool mend, const std::atomic<bool>& stop,
       const std::function<void(const ScrubReport&)>& tell)
      : rooms_(rooms), mend_(mend), stop_(stop), tell_(tell) {}

  absl::Status Over(const VerifiedBlobStore& store,
                    absl::Status (Walk::*visit)(const Digest& key,
                                                const std::string& payload)) {
    Digest from;
    while (true) {
      ASSIGN_OR_RETURN(const Chunk chunk, ChunkFrom(store, from));
      const size_t due = chunk.keys.size() - (chunk.last ? 0 : 1);
      for (size_t i = 0; i < due; ++i) {
        if (stop_) return absl::CancelledError("scrub: told to stop");
        const auto& [key, bytes] = chunk.keys[i];
        ++report_.records;
        report_.bytes += bytes;
        const absl::StatusOr<std::string> payload = Read(store, key);
        if (payload.ok() && visit != nullptr)
          RETURN_IF_ERROR((this->*visit)(key, *payload));
      }
      tell_(report_);
      if (chunk.last) return absl::OkStatus();
      from = chunk.keys.back().first;
    }
  }

  absl::Status Entry(const Digest& id, const std::string& payload) {
    const absl::StatusOr<wire::CacheEntry> entry = ReadEntryRecord(id, payload);
    if (!entry.ok()) {
      Count(entry.status(), report_);
      return mend_ ? rooms_.artifacts.Evict(id) : absl::OkStatus();
    }
    // ReadEntryRecord computed it.
    const Digest key = *Digest::FromBytes(entry->key().compile_key());
    const absl::StatusOr<std::string> named = rooms_.indexes.Peek(key);
    absl::Status found = named.status();
    if (found.ok()) {
      const auto index = ReadIndexRecord(key, *named);
      found = index.status();
      for (int i = 0; index.ok() && i < (*index)->entries_size(); ++i)
        if ((*index)->entries(i).entry_id() == id.bytes()) return found;
    }
    ++report_.unnamed;
    if (!mend_) return absl::OkStatus();
    // A damaged index is replaced by that: it is met no more.
    Count(found, report_);
    return rooms_.artifacts.Name(*entry);
  }

  absl::Status Index(const Digest& key, const std::string& payload) {
    const auto index = ReadIndexRecord(key, payload);
    if (!index.ok()) {
      Count(index.status(), report_);
      return mend_ ? rooms_.indexes.Delete(key) : absl::OkStatus();
    }
    for (const wire::EntryFacts& facts : (*index)->entries()) {
      const auto id = Digest::FromBytes(facts.entry_id());
      if (!id.has_value()) continue;
      if (!absl::IsNotFound(rooms_.entries.Peek(*id).status())) continue;
      ++report_.dangling;
      if (mend_) RETURN_IF_ERROR(rooms_.artifacts.Unname(key, *id));
    }
    return absl::OkStatus();
  }

 private:
  // What is not sound is counted, and with `mend` gone.
  absl::StatusOr<std::string> Read(const VerifiedBlobStore& store,
                                   const Digest& key) {
    absl::StatusOr<std::string> payload = store.Peek(key);
    if (payload.ok()) return payload;
    Count(payload.status(), report_);
    if (mend_) IgnoreBecause(store.Get(key).status(), "it was counted");
    return payload;
  }

  const Rooms& rooms_;
  const bool mend_;
  const std::atomic<bool>& stop_;
  const std::function<void(const ScrubReport&)>& tell_;
  ScrubReport report_;
};

absl::Status Scrub::Run(
    bool mend, const std::atomic<bool>& stop,
    const std::function<void(const ScrubReport&)>& tell) const {
  Walk walk(rooms_, mend, stop, tell);
  for (const VerifiedBlobStore* store : rooms_.others)
    RETURN_IF_ERROR(walk.Over(*store, nullptr));
  // Entries before what names them: a name whose entry was dropped goes too.
  RETURN_IF_ERROR(walk.Over(rooms_.entries, &Walk::Entry));
  return walk.Over(rooms_.indexes, &Walk::Index);
}

}  // namespace kiln
