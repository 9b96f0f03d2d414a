#ifndef KILN_PROTO_BASE_KEY_RING_H_
#define KILN_PROTO_BASE_KEY_RING_H_

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"
#include "proto/base/signature.h"
#include "proto/base/trusted_keys.h"

namespace kiln {

// The keys that a daemon signs with, one at a time for each namespace, and those
// that it believes. Changes hold from the next call on. Thread-safe.
//
// A key that another replaced as a signer goes on being believed until it is
// revoked.
class KeyRing {
 public:
  // `own` signs in every namespace that has no key of its own, and what all
  // namespaces share. `others` are believed too.
  explicit KeyRing(SigningKey own, const TrustedKeys& others = {});

  // Who signs in the namespace; for the empty name, what all share.
  std::shared_ptr<const SigningKey> SignerOf(
      absl::string_view cache_namespace) const ABSL_LOCKS_EXCLUDED(mu_);

  // Who is believed now.
  std::shared_ptr<const TrustedKeys> trusted() const ABSL_LOCKS_EXCLUDED(mu_);

  // The key signs from now on, in the namespace (empty: wherever none is set),
  // and is believed there.
  void SetSigner(absl::string_view cache_namespace, SigningKey key)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The key is believed no more. It must not be a signer's.
  void Revoke(absl::string_view key_id) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable Mutex mu_;
  // By namespace; "" is always there.
  std::map<std::string, std::shared_ptr<const SigningKey>, std::less<>> signers_
      ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const TrustedKeys> trusted_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_PROTO_BASE_KEY_RING_H_
