#include "cache/metered_blob_store.h"

namespace kiln {

absl::StatusOr<Blob> MeteredBlobStore::Get(const Digest& key) const {
  ++gets_;
  absl::StatusOr<Blob> blob = inner_.Get(key);
  if (blob.ok()) {
    ++found_;
    bytes_read_ += (*blob)->size();
  } else if (!absl::IsNotFound(blob.status())) {
    ++failures_;
  }
  return blob;
}

absl::Status MeteredBlobStore::Put(const Digest& key, absl::string_view bytes) {
  absl::Status status = inner_.Put(key, bytes);
  if (status.ok()) {
    ++puts_;
    bytes_written_ += bytes.size();
  } else {
    ++failures_;
  }
  return status;
}

absl::Status MeteredBlobStore::Delete(const Digest& key) {
  absl::Status status = inner_.Delete(key);
  ++(status.ok() ? deletes_ : failures_);
  return status;
}

absl::Status MeteredBlobStore::ScanFrom(
    const Digest& from,
    absl::FunctionRef<absl::Status(const Digest&, int64_t)> visit) const {
  return inner_.ScanFrom(from, visit);
}

StoreCounts MeteredBlobStore::counts() const {
  return {.gets = gets_,
          .found = found_,
          .puts = puts_,
          .deletes = deletes_,
          .failures = failures_,
          .bytes_read = bytes_read_,
          .bytes_written = bytes_written_};
}

}  // namespace kiln
