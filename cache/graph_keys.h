#ifndef KILN_CACHE_GRAPH_KEYS_H_
#define KILN_CACHE_GRAPH_KEYS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cache/blob_store.h"
#include "cache/key_claims.h"
#include "proto/base/digest.h"

namespace kiln {

// The compile keys that each graph of a namespace has: one small record a graph. They
// explain a missed key by the other keys of its graph, without a walk over all entries.
//
// The records may be lost, and then begin anew: a graph may have keys that are not in its
// record, and a key in a record may no longer have an entry. Keys that a build before
// this one stored are not in it.
//
// Thread-safe: one writer a graph at a time.
class GraphKeys {
 public:
  // Of a graph in a namespace: those that were named last.
  static constexpr size_t kMost = 32;

  // The records lie in `store` under digests of their own, beside whatever else. It
  // outlives this.
  explicit GraphKeys(BlobStore& store) : store_(store) {}

  // Puts the key in front, unless it is there. `cache_namespace` is its name's
  // digest, as in the key's part. Errors as BlobStore::Put.
  absl::Status Add(const Digest& graph, const Digest& cache_namespace,
                   const Digest& key);

  // The one that was named last in front.
  std::vector<Digest> Find(const Digest& graph,
                           const Digest& cache_namespace) const;

 private:
  std::vector<Digest> Read(const Digest& record) const;

  BlobStore& store_;
  KeyClaims claims_;  // of records being read, changed and written
};

}  // namespace kiln

#endif  // KILN_CACHE_GRAPH_KEYS_H_
