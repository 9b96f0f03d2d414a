#include "cache/ledger_loading.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "proto/base/status.h"

namespace kiln {
namespace {

using Keys = std::vector<std::pair<Digest, int64_t>>;

// Marks what is in the store; gives what the ledger does not know of it.
absl::StatusOr<Keys> MarkAll(Ledger& ledger, const BlobStore& store,
                             const std::atomic<bool>& stop) {
  Keys unknown;
  RETURN_IF_ERROR(store.Scan([&](const Digest& key, int64_t bytes) {
    if (stop) return absl::CancelledError("ledger: told to stop");
    if (!ledger.MarkSeen(key)) unknown.emplace_back(key, bytes);
    return absl::OkStatus();
  }));
  return unknown;
}

}  // namespace

absl::Status LoadLedger(Ledger& ledger, const StoredRecords& stored,
                        const std::atomic<bool>& stop) {
  RETURN_IF_ERROR(ledger.LoadRows(stop));
  ASSIGN_OR_RETURN(const Keys entries, MarkAll(ledger, stored.entries, stop));
  ASSIGN_OR_RETURN(const Keys units, MarkAll(ledger, stored.units, stop));
  ledger.ForgetUnseen();
  for (const auto& [key, bytes] : entries) {
    if (stop) return absl::CancelledError("ledger: told to stop");
    IgnoreBecause(stored.artifacts.Note(key), "what is unsound goes by that");
  }
  for (const auto& [key, bytes] : units) {
    IgnoreBecause(stored.unit_cache.Note(key, bytes),
                  "the next start notes it");
  }
  ledger.SetWhole();
  return absl::OkStatus();
}

}  // namespace kiln
