#ifndef KILN_CACHE_FAR_REDIS_REPLY_H_
#define KILN_CACHE_FAR_REDIS_REPLY_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/far/resp.h"

namespace kiln {

// What a server's replies mean to those who asked. Pure.

// UNAVAILABLE STORAGE when one of the replies is an error of the server's.
absl::Status CheckReplies(const std::vector<RespValue>& replies);

// DATA_LOSS ARTIFACT_CORRUPT, naming the command whose reply is of another kind
// than it has.
absl::Status NoSense(absl::string_view command);

}  // namespace kiln

#endif  // KILN_CACHE_FAR_REDIS_REPLY_H_
