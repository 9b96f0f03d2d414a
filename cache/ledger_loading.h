#ifndef KILN_CACHE_LEDGER_LOADING_H_
#define KILN_CACHE_LEDGER_LOADING_H_

#include <atomic>

#include "absl/status/status.h"
#include "cache/artifact_cache.h"
#include "cache/blob_store.h"
#include "cache/ledger.h"
#include "cache/unit_cache.h"

namespace kiln {

// What the ledger is compared with when it is loaded.
struct StoredRecords {
  const BlobStore& entries;
  const BlobStore& units;
  ArtifactCache& artifacts;
  UnitCache& unit_cache;
};

// Fills the ledger with what is stored: reads its rows, then the keys of all records.
// A row without its record is forgotten; of a record without its row, one is made
// from the record. Takes seconds for a million, and may run while the cache serves.
//
// CANCELLED when `stop` is set meanwhile; UNAVAILABLE STORAGE.
absl::Status LoadLedger(Ledger& ledger, const StoredRecords& stored,
                        const std::atomic<bool>& stop);

}  // namespace kiln

#endif  // KILN_CACHE_LEDGER_LOADING_H_
