#ifndef KILN_PROTO_KEY_TOKEN_NAME_H_
#define KILN_PROTO_KEY_TOKEN_NAME_H_

#include "absl/strings/string_view.h"

namespace kiln {

// The text of a token's secret: 32 random bytes in the letters of base64 that a URL
// takes, without padding.
inline constexpr int kTokenSecretText = 43;

// What of `given` may be shown and logged as the name of a token. People paste
// NAME.SECRET where NAME is due: that gives NAME. Of anything else it gives what stands
// before the first letter that no name has. Pure.
absl::string_view TokenNameIn(absl::string_view given);

}  // namespace kiln

#endif  // KILN_PROTO_KEY_TOKEN_NAME_H_
