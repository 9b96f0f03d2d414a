#include "cache/rocksdb_scan.h"

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "cache/rocksdb_options.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The first eight bytes of digests as numbers: what damage is measured in.
uint64_t PlaceOf(const Digest& key) {
  uint64_t place = 0;
  for (int i = 0; i < 8; ++i)
    place = place << 8 | static_cast<unsigned char>(key.bytes()[i]);
  return place;
}

Digest KeyAt(uint64_t place) {
  std::string bytes(Digest::kBytes, '\0');
  for (int i = 0; i < 8; ++i)
    bytes[i] = static_cast<char>(place >> (56 - 8 * i));
  return *Digest::FromBytes(bytes);
}

// The next key after `key` in order; empty behind the last.
std::optional<Digest> Next(const Digest& key) {
  std::string bytes = key.ToBytes();
  for (int i = Digest::kBytes - 1; i >= 0; --i) {
    if (++bytes[i] != '\0') return Digest::FromBytes(bytes);
  }
  return std::nullopt;
}

class Scan {
 public:
  Scan(rocksdb::DB& db, const std::string& prefix) : db_(db), prefix_(prefix) {
    // Behind all rows of the prefix.
    end_ = prefix_;
    ++end_.back();
    end_slice_ = end_;
    options_.iterate_upper_bound = &end_slice_;
    options_.fill_cache = false;
    row_.reset(db_.NewIterator(options_));
  }

  // True when it stands on a row or at the end, not in damage.
  bool SeekTo(const Digest& key) {
    // One that has met damage may report it again in the sound block where it was
    // before (seen with RocksDB 7.8).
    if (IsDamage(row_->status())) row_.reset(db_.NewIterator(options_));
    row_->Seek(absl::StrCat(prefix_, key.bytes()));
    return row_->Valid() || !IsDamage(row_->status());
  }
  // Goes to the first place behind the damage after `key`. False where nothing
  // can be read any more.
  bool SkipDamage(const Digest& key) {
    const uint64_t start = PlaceOf(key);
    uint64_t bad = start, good = start;
    for (uint64_t step = uint64_t{1} << 24; good == start; step <<= 1) {
      if (step == 0 || start + step < start) return false;
      if (SeekTo(KeyAt(start + step))) {
        good = start + step;
      } else {
        bad = start + step;
      }
    }
    while (good - bad > 1) {
      const uint64_t middle = bad + (good - bad) / 2;
      (SeekTo(KeyAt(middle)) ? good : bad) = middle;
    }
    return SeekTo(KeyAt(good));
  }

  rocksdb::Iterator& row() { return *row_; }
  // Of the row that it stands on; none at the end, or where there is no digest.
  std::optional<Digest> Key() const {
    if (!row_->Valid()) return std::nullopt;
    const rocksdb::Slice key = row_->key();
    return Digest::FromBytes(absl::string_view(key.data() + prefix_.size(),
                                               key.size() - prefix_.size()));
  }

 private:
  rocksdb::DB& db_;
  const std::string prefix_;
  rocksdb::ReadOptions options_;
  std::string end_;
  rocksdb::Slice end_slice_;
  std::unique_ptr<rocksdb::Iterator> row_;
};

}  // namespace

absl::Status ScanRows(
    rocksdb::DB& db, absl::string_view folder, const std::string& prefix,
    const Digest& from,
    absl::FunctionRef<absl::Status(const Digest&, absl::string_view)> visit,
    PassedBy passed_by) {
  Scan scan(db, prefix);
  Digest at = from;  // all before it were visited
  bool readable = scan.SeekTo(at);
  while (true) {
    if (!readable) {
      LogWarning("cache.damage_passed_by",
                 {{"folder", folder}, {"after", at.ShortHex()}});
      if (!scan.SkipDamage(at)) return passed_by(at, std::nullopt);
      RETURN_IF_ERROR(passed_by(at, scan.Key()));
    }
    rocksdb::Iterator& row = scan.row();
    for (; row.Valid(); row.Next()) {
      const std::optional<Digest> digest = scan.Key();
      if (!digest.has_value()) continue;
      RETURN_IF_ERROR(visit(
          *digest, absl::string_view(row.value().data(), row.value().size())));
      const std::optional<Digest> next = Next(*digest);
      if (!next.has_value()) return absl::OkStatus();
      at = *next;
    }
    if (row.status().ok()) return absl::OkStatus();
    if (!IsDamage(row.status())) return StorageError(folder, row.status());
    readable = false;
  }
}

}  // namespace kiln
