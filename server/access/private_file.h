#ifndef KILN_SERVER_ACCESS_PRIVATE_FILE_H_
#define KILN_SERVER_ACCESS_PRIVATE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/access/open_folder.h"

namespace kiln {

// Small files that are their owner's alone: hashes of tokens, keys.

// The file's bytes. Follows no link.
//
//   NOT_FOUND                       no such file
//   UNAVAILABLE STORAGE             it cannot be read, or has over `max_bytes`
//   PERMISSION_DENIED PERMISSION    others may read or write it, or it is
//                                   another user's
absl::StatusOr<std::string> ReadPrivateFile(const OpenFolder& folder,
                                            const std::string& name,
                                            int64_t max_bytes);
// The same of a file that the configuration names, wherever it is.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path,
                                            int64_t max_bytes);

// Replaces the file, mode 0600: after OK it is on the disk whole, else what was
// there before still is. UNAVAILABLE STORAGE, naming the path.
absl::Status ReplacePrivateFile(const OpenFolder& folder,
                                const std::string& name,
                                absl::string_view bytes);

}  // namespace kiln

#endif  // KILN_SERVER_ACCESS_PRIVATE_FILE_H_
