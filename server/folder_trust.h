#ifndef KILN_SERVER_FOLDER_TRUST_H_
#define KILN_SERVER_FOLDER_TRUST_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <string>

namespace kiln {

// Whether what this user owns is as good as one's own: this user, root, or the owner
// of "/", without whom there is no path. Who has no root in their user namespace sees
// root's folders as theirs.
bool IsOwnOrRoots(uid_t user);

// Why others could add something to the folder, or replace what is in it; empty if they
// could not. `found` is the result of stat for `path`.
//
//   owned by user 1001, expected 1000
//   mode 0777, which others may write
//
// In a folder with the sticky bit they cannot touch what is not theirs. A group is its
// owner's alone where it has the owner's name, no other member, and no access list
// that it may stand for.
std::string HowOthersMayChange(const std::string& path,
                               const struct stat& found);

}  // namespace kiln

#endif  // KILN_SERVER_FOLDER_TRUST_H_
