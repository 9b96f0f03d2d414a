#ifndef KILN_SERVER_ACCESS_GATEKEEPER_H_
#define KILN_SERVER_ACCESS_GATEKEEPER_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/mutex.h"
#include "server/access/access_rule.h"
#include "server/access/audit_log.h"
#include "server/access/caller.h"
#include "server/access/client_certificates.h"
#include "server/access/peer_numbers.h"
#include "server/access/token_store.h"
#include "server/counters.h"

namespace kiln {

// Says who makes a call, from the connection it came over, and whether they may.
//
//   over the Unix socket   uid:N, as the kernel says; the owner may do all
//   over TLS               token:NAME of the bearer token, if one is shown, with
//                          the token's own grants; else cert:NAME, the first name
//                          of the certificate. Who shows one that is not good is
//                          refused, whatever else they show
//   over plain TCP         plain, a submitter in the default namespace
//
// What a rule grants to one of these comes on top, but for tokens, which have their
// own alone; without any the call is refused. Thread-safe.
class Gatekeeper {
 public:
  // All outlive this.
  struct Rooms {
    const PeerNumbers& peers;
    const TokenStore& tokens;
    AuditLog& audit;
    Counters& counters;
    ClientCertificates* certificates =
        nullptr;  // null: nobody is asked for one
  };
  struct Options {
    uid_t owner = 0;
    // The network's door has no TLS: nobody there shows anything.
    bool network_is_plain = false;
    std::vector<AccessRule> rules;
  };
  Gatekeeper(const Rooms& rooms, Options options)
      : rooms_(rooms),
        owner_(options.owner),
        network_is_plain_(options.network_is_plain),
        rules_(std::make_shared<const Rules>(std::move(options.rules))) {}

  // Others than those in force: from the next call on, and for connections that are
  // there too.
  void SetRules(std::vector<AccessRule> rules) ABSL_LOCKS_EXCLUDED(mu_);

  bool IsOwner(uid_t user) const { return user == owner_; }
  // Whether a user may connect to the Unix socket at all.
  bool MayConnect(uid_t user) const ABSL_LOCKS_EXCLUDED(mu_);

  // UNAUTHENTICATED, recorded: no token and no certificate, or one that is not
  // good.
  absl::StatusOr<Caller> Admit(
      const grpc::CallbackServerContext& context) const;

  // PERMISSION_DENIED PERMISSION, recorded, unless the caller has the role there.
  // `what`: the call, as "lookup". `subject`: what the call would have changed, for
  // the record; empty: the namespace.
  absl::Status Require(const Caller& caller, Role role,
                       absl::string_view cache_namespace,
                       absl::string_view what,
                       absl::string_view subject = "") const;

  // The same, of a role that holds in any namespace.
  absl::Status RequireSomewhere(const Caller& caller, Role role,
                                absl::string_view what) const;

  // Records an act that changes what others see.
  void Record(const Caller& caller, absl::string_view what,
              absl::string_view subject, const absl::Status& outcome) const;
  // The same, of one that goes well and that a caller may do often: as
  // AuditLog::RecordOften.
  void RecordOften(const Caller& caller, absl::string_view what,
                   absl::string_view subject) const;

 private:
  using Rules = std::vector<AccessRule>;

  std::shared_ptr<const Rules> rules() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return rules_;
  }
  // Records a refusal of Require.
  absl::Status Judge(const Caller& caller, absl::string_view what,
                     absl::string_view subject, absl::Status allowed) const;
  Caller Known(std::string identity, std::vector<Grant> grants) const;
  // `shown`: what is recorded of an identity that is not good.
  absl::StatusOr<Caller> Identify(const grpc::CallbackServerContext& context,
                                  std::string& shown) const;
  absl::StatusOr<Caller> IdentifyOverTls(
      const grpc::CallbackServerContext& context, std::string& shown) const;

  const Rooms rooms_;
  const uid_t owner_;
  const bool network_is_plain_;
  mutable Mutex mu_;
  std::shared_ptr<const Rules> rules_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_ACCESS_GATEKEEPER_H_
