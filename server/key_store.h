#ifndef KILN_SERVER_KEY_STORE_H_
#define KILN_SERVER_KEY_STORE_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/clock.h"
#include "proto/base/key_ring.h"
#include "proto/base/mutex.h"
#include "server/access/open_folder.h"
#include "server/key_file.h"

namespace kiln {

// Bounds of the list of keys. A namespace's admin may rotate that namespace's key
// and nothing else, so rotations are bounded for each namespace, and they take no
// room from revocations, which only an admin of every namespace may make.
//
// Keys of one namespace that are believed; the key that signs is one of them.
inline constexpr int kMaxKeysANamespace = 32;
// Namespaces that have keys of their own.
inline constexpr int kMaxNamespacesWithKeys = 1024;
// Revoked keys. None is ever forgotten: a client over TCP that has the key in its
// configuration learns of the revocation from this list alone.
inline constexpr int kMaxRevokedKeys = 65'536;

// The daemon's signing keys on disk, each in a file of mode 0600:
//
//   FOLDER/signing.key       signs where a namespace has no key of its own, and
//                            what all namespaces share
//   FOLDER/signing.NAME.key  signs in namespace NAME; made by the first rotation
//   FOLDER/keys              which keys there have been, and which were revoked
//                            (key_file.h)
//
// A rotation makes a new key; the one before is deleted and goes on being believed
// until it is revoked. Nothing expires. Changes are on the disk before they hold.
// Thread-safe.
class KeyStore {
 public:
  // Makes signing.key at the first start. A secret that is missing
  // later is made anew, and a warning in the log says so. `others`: keys of the
  // configuration. `clock`, the wall's, outlives the store.
  //
  // STORAGE, naming the path: it can't be read or written, or the list of keys is
  // empty, cut short or changed.
  // PERMISSION: others than its owner may read or write it. ARTIFACT_UNTRUSTED: a
  // key's file holds no key.
  static absl::StatusOr<std::unique_ptr<KeyStore>> Open(
      const OpenFolder& folder, const TrustedKeys& others, const Clock& clock);

  // Writes the list where it is missing or an earlier build's, without a checksum.
  // To be called once no other daemon can have the folder. What fails is logged
  // and tried again with the next change.
  void KeepList() ABSL_LOCKS_EXCLUDED(mu_);

  // The keys in force.
  const std::shared_ptr<KeyRing>& ring() const { return ring_; }

  // Makes the next key of the namespace; empty: of all that have none.
  //
  // BAD_OPTION: not the name of a namespace, or kMaxKeysANamespace or
  // kMaxNamespacesWithKeys is reached. STORAGE as Open: the key before signs on.
  absl::StatusOr<PublicKey> Rotate(absl::string_view cache_namespace)
      ABSL_LOCKS_EXCLUDED(mu_);

  struct Revoked {
    std::string id;
    std::vector<wire::DaemonKey> signs_now;  // made because it signed
    // It was signing.key, which signs the cache's indexes, too: what other keys signed
    // is found again after a scrub alone.
    bool signed_indexes = false;
  };

  // The key is believed no more, whoever it belongs to. One that
  // signs here is replaced first, however many keys its namespace has. `key_hex`:
  // 64 digits of a public key, or 16 of its id. `unknown`: the key need not be on
  // the list.
  //
  // BAD_OPTION: not such digits, or kMaxRevokedKeys is reached. NOT_FOUND: it is
  // not on the list. STORAGE as Open.
  absl::StatusOr<Revoked> Revoke(absl::string_view key_hex,
                                 bool unknown = false) ABSL_LOCKS_EXCLUDED(mu_);

  struct Row {
    wire::DaemonKey key;
    bool signs = false;    // the next artifact of its namespace
    bool foreign = false;  // of the configuration
  };
  // Those that sign, the other believed ones, the revoked ones.
  std::vector<Row> List() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  KeyStore(const OpenFolder& folder, const TrustedKeys& others,
           const Clock& clock)
      : folder_(folder), others_(others), clock_(clock) {}

  absl::Status Load() ABSL_LOCKS_EXCLUDED(mu_);
  // The namespace's key; made when its file is missing, which the log then tells
  // if it `was_there` before.
  absl::StatusOr<SigningKey> LoadSigner(absl::string_view cache_namespace,
                                        bool was_there) const;
  // BAD_OPTION when the namespace may not have another key.
  absl::Status CheckRoom(absl::string_view cache_namespace) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Without a look at the bounds: a revocation always gets the key it needs.
  absl::StatusOr<PublicKey> RotateLocked(absl::string_view cache_namespace)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t NowMs() const { return absl::ToUnixMillis(clock_.Now()); }

  const OpenFolder folder_;
  const TrustedKeys others_;
  const Clock& clock_;
  std::shared_ptr<KeyRing> ring_;  // set by Open
  mutable Mutex mu_;
  wire::KeyFile file_ ABSL_GUARDED_BY(mu_);
  bool list_is_current_ ABSL_GUARDED_BY(mu_) = false;
  // Namespaces with a key of their own.
  std::set<std::string> namespaces_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_KEY_STORE_H_
