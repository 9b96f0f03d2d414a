#ifndef KILN_SERVER_DATA_FOLDER_H_
#define KILN_SERVER_DATA_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/access/open_folder.h"

namespace kiln {

// Makes the daemon's data folder with its parents, or takes the one that is there:
// its user's alone from then on, with files and links of that user alone in it. What was
// checked is what is returned, open.
//
//   PERMISSION  it, or something in it, is another user's, or a link or a folder on the
//               way to it is, root's excepted, or others may write in such a folder
//               (folder_trust.h); nothing was made or read
//   BAD_OPTION  it has files, and none of them a daemon's; it stays as it is. Its socket
//               and the socket's lock, which lie there already where `socket` is in it,
//               are none of a daemon's data and do not count
//   STORAGE     it cannot be made or written
absl::StatusOr<OpenFolder> TakeDataFolder(const std::string& path,
                                          const std::string& socket = "");

}  // namespace kiln

#endif  // KILN_SERVER_DATA_FOLDER_H_
