#ifndef KILN_SERVER_ACCESS_TOKEN_STORE_H_
#define KILN_SERVER_ACCESS_TOKEN_STORE_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "proto/token_file.pb.h"
#include "server/access/caller.h"
#include "server/access/open_folder.h"

namespace kiln {

// No token is good for longer.
inline constexpr absl::Duration kLongestTokenLife = absl::Hours(24 * 366);
inline constexpr int kMaxTokens = 10000;

// The tokens that callers over TCP may show. A token is its name, a dot and 43
// characters of secret, which is kept as a hash only: who reads the file cannot
// call. Thread-safe.
class TokenStore {
 public:
  // Kept in the file `tokens`, made by the first, for its owner alone. `clock`, the wall's,
  // outlives the store.
  //
  // UNAVAILABLE STORAGE when the file cannot be read or is no token file: then
  // nobody's token would be known, and nobody's revocation either.
  static absl::StatusOr<std::unique_ptr<TokenStore>> Open(
      const OpenFolder& folder, const Clock& clock);

  // Makes a token and gives what its holder shows: this once.
  //
  //   BAD_OPTION  a name that is no namespace's (the same letters), is taken
  //               (until revoked), a life that is not positive or over
  //               kLongestTokenLife, namespaces that are none, too many tokens
  //   STORAGE     the file cannot be written; there is no such token then
  absl::StatusOr<std::string> Make(absl::string_view name, const Grant& grant,
                                   absl::Duration life)
      ABSL_LOCKS_EXCLUDED(write_mu_, mu_);

  // The token is refused from now on. `given` is its name, or, as people paste it,
  // the token: no message has its secret.
  //
  // NOT_FOUND; STORAGE as Make: the token is refused all the same until the
  // daemon ends, and is in the file until it is revoked again or any other token
  // is written.
  absl::Status Revoke(absl::string_view given)
      ABSL_LOCKS_EXCLUDED(write_mu_, mu_);

  // Who shows `shown`.
  //
  // UNAUTHENTICATED, the message without the secret: no such token, or one that
  // has expired.
  absl::StatusOr<Caller> CallerOf(absl::string_view shown) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // By name; secrets' hashes are left out.
  std::vector<wire::Token> List() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Tokens = std::map<std::string, wire::Token, std::less<>>;
  TokenStore(const OpenFolder& folder, const Clock& clock, Tokens tokens)
      : folder_(folder), clock_(clock), tokens_(std::move(tokens)) {}

  // Writes all tokens and, when not null, `made`, which is good once written.
  absl::Status Write(const wire::Token* made)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mu_) ABSL_LOCKS_EXCLUDED(mu_);

  const OpenFolder folder_;
  const Clock& clock_;
  // Held while the disk works, which CallerOf never waits for.
  Mutex write_mu_ ABSL_ACQUIRED_BEFORE(mu_);
  mutable Mutex mu_;
  Tokens tokens_ ABSL_GUARDED_BY(mu_);  // by name
  // Revoked, and perhaps still in the file.
  std::set<std::string, std::less<>> unwritten_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_ACCESS_TOKEN_STORE_H_
