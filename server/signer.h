#ifndef KILN_SERVER_SIGNER_H_
#define KILN_SERVER_SIGNER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/signature.h"
#include "proto/base/trusted_keys.h"
#include "server/access/open_folder.h"

namespace kiln {

// The daemon's key: read from the file `name`, or made there with mode 0600 at the
// first start. While it is made it has the name NAME.PID; such a file of a process
// that is gone is removed.
//
// STORAGE, naming the path: it can't be read or written. PERMISSION: others
// than its owner may read or write it, or its owner is another user. ARTIFACT_UNTRUSTED: it holds no key.
absl::StatusOr<SigningKey> LoadOrMakeSigningKey(const OpenFolder& folder,
                                                const std::string& name);

// Public keys as people write them: 64 hexadecimal digits, and for a key that
// counts in one namespace alone that name and a colon before them
// ("team-a:9c41..."). BAD_OPTION for what is neither.
absl::StatusOr<TrustedKeys> ParseKeys(const std::vector<std::string>& texts);

}  // namespace kiln

#endif  // KILN_SERVER_SIGNER_H_
