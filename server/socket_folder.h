#ifndef KILN_SERVER_SOCKET_FOLDER_H_
#define KILN_SERVER_SOCKET_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace kiln {

// Makes the folder of the socket at `path`, mode 0700, when only the last part of
// its path is missing. Then: OK when nobody but this user and root may put
// another file in the socket's place. Somebody else may have made
// /tmp/kiln-UID, or a link to a folder of theirs, before its user did.
//
// PERMISSION when the folder is a link, another user's, or open to others'
// writing without the sticky bit.
absl::Status TakeSocketFolder(const std::string& path);

}  // namespace kiln

#endif  // KILN_SERVER_SOCKET_FOLDER_H_
