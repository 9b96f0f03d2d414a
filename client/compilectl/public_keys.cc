#include "client/compilectl/public_keys.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<std::vector<PublicKey>> ReadPublicKeys(const std::string& text) {
  std::vector<PublicKey> keys;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    const std::optional<Digest> raw = Digest::FromHex(word);
    if (!raw.has_value()) {
      return MakeError(
          ErrorReason::kBadOption,
          absl::StrCat(
              "--public-key: found ",
              word.empty() ? "none"
                           : absl::StrCat("\"", word.substr(0, 80), "\""),
              ", expected with --tcp the 64 hexadecimal digits of the "
              "daemon's public key, which `compilectl keys list` shows "
              "it on its machine (KILN_PUBLIC_KEY may name it too)"));
    }
    ASSIGN_OR_RETURN(PublicKey key, PublicKey::FromBytes(raw->bytes()));
    keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace kiln
