#ifndef KILN_SERVER_OPEN_FAR_STORE_H_
#define KILN_SERVER_OPEN_FAR_STORE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "cache/far/far_store.h"
#include "server/config.h"

namespace kiln {

// The far store that [far] names; null where it names none. Nothing is asked of it
// yet, so that one that is gone keeps no daemon from starting. `config` has passed
// CheckConfig.
//
// BAD_OPTION, STORAGE or PERMISSION, naming the file: a password, token or
// TLS file that cannot be read, or a password or token that others may read.
absl::StatusOr<std::shared_ptr<FarStore>> OpenFarStore(const Config& config);

}  // namespace kiln

#endif  // KILN_SERVER_OPEN_FAR_STORE_H_
