#ifndef KILN_SERVER_ACCESS_CLIENT_CERTIFICATES_H_
#define KILN_SERVER_ACCESS_CLIENT_CERTIFICATES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/clock.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"
#include "server/access/file_version.h"

typedef struct x509_store_st X509_STORE;

namespace kiln {

// Whether callers' certificates are good. gRPC 1.51 can check them too, and then
// ends a handshake without telling anybody of whom and why; so it is asked only to
// see that a caller has the key of the certificate that it shows, and whose that
// is is decided here, for each call.
//
// Good is a certificate with a chain to a CA of the PEM file, for TLS clients, in
// force now, of no less than OpenSSL's security level 2 (RSA of 2048 bits, SHA-256).
// Where the file has revocation lists, each CA of the chain must have one that is in
// force, and none may name a certificate of the chain.
//
// The file is read again when it changes, a few seconds later; one that turned bad is
// not taken, and told to the daemon's log. Thread-safe.
class ClientCertificates {
 public:
  // BAD_OPTION, naming the file: it cannot be read or has no certificate.
  // `clock` outlives this.
  static absl::StatusOr<std::unique_ptr<ClientCertificates>> Open(
      const std::string& path, const Clock& clock);

  ClientCertificates(const ClientCertificates&) = delete;
  ClientCertificates& operator=(const ClientCertificates&) = delete;
  ~ClientCertificates();

  // `leaf`: the certificate whose key a caller has; `chain`: what came with it. PEM,
  // of a stranger.
  //
  // `connection`: the number of the one that shows them, which shows no others; 0: it
  // has none.
  //
  // UNAUTHENTICATED, saying of which certificate what is wrong.
  absl::Status Check(absl::string_view leaf, absl::string_view chain,
                     uint64_t connection = 0) ABSL_LOCKS_EXCLUDED(mu_);

  // What Check said of the connection, as long as it would say the same again without
  // a look at the certificates. Empty: Check has to be asked.
  std::optional<absl::Status> Known(uint64_t connection)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct FreeStore {
    void operator()(X509_STORE* store) const;
  };
  using Store = std::unique_ptr<X509_STORE, FreeStore>;
  struct Verdict {
    absl::Status status;
    SteadyTime good_until;
  };

  ClientCertificates(std::string path, const Clock& clock)
      : path_(std::move(path)), clock_(clock) {}

  static absl::StatusOr<Store> Read(const std::string& path);
  void Reread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Keep(uint64_t connection, const Verdict& verdict)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  const Clock& clock_;
  Mutex mu_;
  Store store_ ABSL_GUARDED_BY(mu_);
  FileVersion version_ ABSL_GUARDED_BY(mu_);
  SteadyTime looked_ ABSL_GUARDED_BY(mu_);
  // By what was shown: a caller shows the same with each call.
  absl::flat_hash_map<Digest, Verdict> verdicts_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, Verdict> connections_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_ACCESS_CLIENT_CERTIFICATES_H_
