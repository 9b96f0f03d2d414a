#ifndef KILN_CLIENT_COMPILECTL_PUBLIC_KEYS_H_
#define KILN_CLIENT_COMPILECTL_PUBLIC_KEYS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/signature.h"

namespace kiln {

// Reads the keys of --public-key: 64 hexadecimal digits each, separated by commas.
// BAD_OPTION for no key or anything else; the message says where to find a key.
absl::StatusOr<std::vector<PublicKey>> ReadPublicKeys(const std::string& text);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_PUBLIC_KEYS_H_
