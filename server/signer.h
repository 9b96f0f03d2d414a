#ifndef KILN_SERVER_SIGNER_H_
#define KILN_SERVER_SIGNER_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/base/signature.h"

namespace kiln {

// The daemon's key: read from `path`, or made there with mode 0600 at the first
// start.
//
// STORAGE, naming the path: it can't be read or written. PERMISSION: others
// than its owner may read or write it. ARTIFACT_UNTRUSTED: it holds no key.
absl::StatusOr<SigningKey> LoadOrMakeSigningKey(const std::string& path);

}  // namespace kiln

#endif  // KILN_SERVER_SIGNER_H_
