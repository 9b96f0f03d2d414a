#include "tests/support/damaged_block.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Opens the database: what is in its log goes to a file of blocks.
absl::StatusOr<std::vector<Digest>> KeysIn(const std::string& folder,
                                           RocksDbTable table) {
  ASSIGN_OR_RETURN(const auto db, RocksDb::Open(folder));
  std::vector<Digest> keys;
  RETURN_IF_ERROR(db->Store(table)->Scan([&keys](const Digest& key, int64_t) {
    keys.push_back(key);
    return absl::OkStatus();
  }));
  return keys;
}

}  // namespace

absl::Status DamageBlockOf(const std::string& folder, RocksDbTable table) {
  ASSIGN_OR_RETURN(const std::vector<Digest> keys, KeysIn(folder, table));
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".sst") continue;
    std::ifstream in(file.path(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(in), {});
    for (const Digest& key : keys) {
      // Some keys stand whole in a block; of the others what differs from the one in
      // front of them.
      const std::string row = absl::StrCat(
          std::string(1, static_cast<char>(table)), "v", key.bytes());
      const size_t at = bytes.find(row);
      if (at == std::string::npos) continue;
      std::fstream out(file.path(),
                       std::ios::in | std::ios::out | std::ios::binary);
      out.seekp(static_cast<std::streamoff>(at + row.size() / 2));
      out.put(static_cast<char>(bytes[at + row.size() / 2] ^ 1));
      return absl::OkStatus();
    }
  }
  return absl::NotFoundError(absl::StrCat(folder, ": no block with such rows"));
}

}  // namespace kiln
