#ifndef KILN_PROTO_KEY_CACHE_NAMESPACE_H_
#define KILN_PROTO_KEY_CACHE_NAMESPACE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// Whose artifacts these are: a team's, a cluster's. Namespaces share no entry,
// and each has its own budget and signing keys.
//
// A name has 1 to kMaxNamespace of a-z, 0-9, '-', '_' and '.', and begins with a
// letter or a digit. It is a word of keys, records, logs and file names.
inline constexpr absl::string_view kDefaultNamespace = "default";
inline constexpr size_t kMaxNamespace = 63;

// The namespace that a request names: kDefaultNamespace for the empty name.
// INVALID_ARGUMENT BAD_OPTION for a name that is none.
absl::StatusOr<std::string> NamespaceNamed(absl::string_view name);

}  // namespace kiln

#endif  // KILN_PROTO_KEY_CACHE_NAMESPACE_H_
