#ifndef KILN_CACHE_FAR_PEER_FAR_STORE_H_
#define KILN_CACHE_FAR_PEER_FAR_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/far/far_pause.h"
#include "cache/far/far_store.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"
#include "proto/rpc/daemon_tls.h"

namespace grpc {
class Channel;
class ChannelCredentials;
class ClientContext;
class Status;
}  // namespace grpc

namespace kiln {

// Another daemon's cache (proto/cache_service.proto) over TLS. The peer answers from
// its own disk alone, so daemons may be each other's peers. One that cannot be
// reached or is silent is left alone for a pause, then tried by one call at a time.
// Thread-safe.
class PeerFarStore final : public FarStore {
 public:
  struct Options {
    std::string address;  // "host:port"
    DaemonTls tls;        // with a CA: a peer is not talked to in plain
    int64_t max_record_bytes = 0;
  };

  // Connects to nobody yet. BAD_OPTION, naming the file, as CredentialsFor.
  static absl::StatusOr<std::shared_ptr<PeerFarStore>> Open(
      const Options& options);

  // Begins to connect, and does not wait.
  absl::Status Connect(SteadyTime deadline) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<std::vector<FarHint>> Hints(const Digest& key,
                                             SteadyTime deadline) override;
  absl::StatusOr<std::string> Get(const FarName& name,
                                  SteadyTime deadline) override;
  // The peer takes it from a publisher; it makes the hint itself.
  absl::Status Put(const FarName& name, absl::string_view hint,
                   absl::string_view record, SteadyTime deadline) override;
  bool WasLeftAlone(const absl::Status& status) const override;

 private:
  PeerFarStore(const Options& options,
               std::shared_ptr<grpc::ChannelCredentials> credentials);

  // Calls a method of the service's stub.
  template <typename Method, typename Request, typename Reply>
  absl::Status Call(Method method, const Request& request, Reply& reply,
                    SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mu_);
  // Notes how a call ended that had `given` time; gives the error as FarStore's.
  absl::Status Judge(const std::shared_ptr<grpc::Channel>& channel,
                     const grpc::Status& status, absl::Duration given)
      ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<grpc::Channel> NewChannel() const;

  const Options options_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  FarBreaker breaker_;
  Mutex mu_;
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_PEER_FAR_STORE_H_
