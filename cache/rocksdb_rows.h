#ifndef KILN_CACHE_ROCKSDB_ROWS_H_
#define KILN_CACHE_ROCKSDB_ROWS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// The second letter of a row's key (rocksdb_blob_store.h): of a blob's bytes, of their
// number, of a RowTable.
inline constexpr char kValueRow = 'v', kSizeRow = 'i', kPlainRow = 'r';

// A size row: u64, little-endian.
inline std::string SizeRow(uint64_t bytes) {
  std::string row;
  for (int i = 0; i < 8; ++i) row += static_cast<char>(bytes >> (8 * i));
  return row;
}

inline int64_t SizeIn(absl::string_view row) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < row.size() && i < 8; ++i) {
    bytes |= static_cast<uint64_t>(static_cast<unsigned char>(row[i]))
             << (8 * i);
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace kiln

#endif  // KILN_CACHE_ROCKSDB_ROWS_H_
