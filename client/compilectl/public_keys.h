#ifndef KILN_CLIENT_COMPILECTL_PUBLIC_KEYS_H_
#define KILN_CLIENT_COMPILECTL_PUBLIC_KEYS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/signature.h"

namespace kiln {

// The keys of --public-key: 64 hexadecimal digits each, with commas between.
// BAD_OPTION, saying where a key is to be had, for none and for anything else.
absl::StatusOr<std::vector<PublicKey>> ReadPublicKeys(const std::string& text);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_PUBLIC_KEYS_H_
