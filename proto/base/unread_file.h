#ifndef KILN_PROTO_BASE_UNREAD_FILE_H_
#define KILN_PROTO_BASE_UNREAD_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

// BAD_OPTION for a file of the configuration that the system refused: `error` is its
// errno. For a relative path it says where that was looked for.
//
//   ca.pem: can't be read: No such file or directory (seen from /home/me)
//
// `what_is_there` stands behind the folder: ", where kilnd was started".
absl::Status UnreadFile(const std::string& path, int error,
                        absl::string_view what_is_there = "");

}  // namespace kiln

#endif  // KILN_PROTO_BASE_UNREAD_FILE_H_
