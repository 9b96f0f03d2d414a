#ifndef KILN_CACHE_TIERED_BLOB_STORE_H_
#define KILN_CACHE_TIERED_BLOB_STORE_H_

#include "cache/blob_store.h"
#include "cache/key_claims.h"

namespace kiln {

// A near store in front of a far one. The far one is the truth; the near one
// may lose anything at any time, and may keep for a while what far evicted.
//
// Thread-safe when both are: what is fetched from far never overwrites in near
// what a Put or Delete of the key did meanwhile.
class TieredBlobStore final : public BlobStore {
 public:
  // Both outlive this.
  TieredBlobStore(BlobStore& near, BlobStore& far) : near_(near), far_(far) {}

  // From near, else from far, and then near has the same blob too.
  absl::StatusOr<Blob> Get(const Digest& key) const override;
  // Far first: near never has what far was not given.
  absl::Status Put(const Digest& key, absl::string_view bytes) override;
  absl::Status Delete(const Digest& key) override;
  // Of far.
  absl::Status ScanFrom(const Digest& from,
                        absl::FunctionRef<absl::Status(const Digest&, int64_t)>
                            visit) const override;

 private:
  BlobStore& near_;
  BlobStore& far_;
  mutable KeyClaims claims_;  // of keys on their way between the two
};

}  // namespace kiln

#endif  // KILN_CACHE_TIERED_BLOB_STORE_H_
