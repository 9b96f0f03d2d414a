#ifndef KILN_SERVER_KEY_FILE_H_
#define KILN_SERVER_KEY_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/key_file.pb.h"
#include "server/access/open_folder.h"

namespace kiln {

// The list of a daemon's keys, the file `keys` of its folder: a KeyFile as text, behind
// a comment with the number of its keys and a checksum of the text. So a list that lost rows is
// told from a whole one: each lost row may be a revocation.
//
//   # Kiln's list of signing keys: 2, xxh3 0011223344556677

struct StoredKeys {
  wire::KeyFile keys;
  bool exists = false;  // else there is no file, and no key
  // Has the comment. Builds before it wrote none, and read a file that has one.
  bool has_checksum = false;
};

// STORAGE, naming the path: it can't be read; it is empty, cut short or changed,
// or not a list of keys. PERMISSION: as ReadPrivateFile.
absl::StatusOr<StoredKeys> ReadKeyFile(const OpenFolder& folder);

// Replaces the file, as ReplacePrivateFile does.
absl::Status WriteKeyFile(const OpenFolder& folder, const wire::KeyFile& keys);

}  // namespace kiln

#endif  // KILN_SERVER_KEY_FILE_H_
