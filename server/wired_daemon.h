#ifndef KILN_SERVER_WIRED_DAEMON_H_
#define KILN_SERVER_WIRED_DAEMON_H_

#include <sys/types.h>

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/cache_stack.h"
#include "cache/ticker.h"
#include "proto/base/mutex.h"
#include "server/access/audit_log.h"
#include "server/access/client_certificates.h"
#include "server/access/gatekeeper.h"
#include "server/access/open_folder.h"
#include "server/access/peer_numbers.h"
#include "server/access/token_store.h"
#include "server/access_file.h"
#include "server/admin_service.h"
#include "server/cache_service.h"
#include "server/call_executor.h"
#include "server/compile_flow.h"
#include "server/compile_job.h"
#include "server/compile_service.h"
#include "server/compile_stream.h"
#include "server/connection_watch.h"
#include "server/daemon.h"
#include "server/fair_share.h"
#include "server/far_lookups.h"
#include "server/front_door.h"
#include "server/job_herald.h"
#include "server/job_leases.h"
#include "server/job_queue.h"
#include "server/job_runners.h"
#include "server/job_table.h"
#include "server/key_store.h"
#include "server/pass_times.h"
#include "server/quarantine.h"
#include "server/unit_builder.h"
#include "server/unread_calls.h"
#include "server/worker_pool.h"

namespace kiln {

// The daemon as it is made: every room, in order.
class WiredDaemon final : public Daemon {
 public:
  WiredDaemon(const Config& config, std::shared_ptr<const Clock> clock);
  ~WiredDaemon() override;

  // Opens, starts and serves all of it.
  absl::Status Open(uid_t owner);

  void WaitForDrainRequest() override ABSL_LOCKS_EXCLUDED(mu_);
  void RequestDrain() override ABSL_LOCKS_EXCLUDED(mu_);
  bool Drain() override;
  const Counters& counters() const override { return counters_; }
  WorkerPool& pool() override { return *pool_; }
  CallExecutor& executor() override { return *executor_; }
  int tcp_port() const override { return door_->tcp_port(); }

 private:
  absl::Status OpenStores(const OpenFolder& folder);
  absl::Status OpenAccess(uid_t owner, const OpenFolder& folder);
  absl::Status StartJobs();
  void MakeServices();
  absl::Status OpenDoor();
  // Reads the access rules again when their file changes.
  void WatchAccess();
  bool DrainRequestedWithin(absl::Duration time) ABSL_LOCKS_EXCLUDED(mu_);

  // In the order in which they are made; each uses those above it only.
  const Config config_;
  const std::shared_ptr<const Clock> own_clock_;
  const Clock& clock_;
  Mutex mu_;
  CondVar drain_requested_;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  Counters counters_;
  PassTimes pass_times_;
  std::unique_ptr<ListenSocket> socket_;  // until the door takes it
  std::unique_ptr<KeyStore> keys_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<TokenStore> tokens_;
  std::optional<Ticker> minutes_;  // of what both logs counted, and of memory
  std::unique_ptr<ClientCertificates> certificates_;  // or null
  PeerNumbers peers_{clock_};
  std::unique_ptr<Gatekeeper> gate_;
  std::unique_ptr<CacheStack> cache_;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<UnitBuilder> units_;
  JobQueue queue_;
  Quarantine quarantine_;
  JobTable jobs_;
  std::unique_ptr<CompileJob> job_;
  std::unique_ptr<FarLookups> far_;    // or null
  std::unique_ptr<JobLeases> leases_;  // or null
  std::unique_ptr<CompileFlow> flow_;
  std::unique_ptr<JobRunners> runners_;
  JobHerald herald_;
  std::unique_ptr<ConnectionWatch> at_socket_;
  std::unique_ptr<UnreadCalls> unread_;
  std::unique_ptr<CompileStreams> calls_;
  std::unique_ptr<FairShare> lookups_;
  std::unique_ptr<CallExecutor> executor_;
  std::unique_ptr<CompileService> compile_service_;
  std::unique_ptr<CacheService> cache_service_;
  std::unique_ptr<AdminService> admin_service_;
  std::unique_ptr<FrontDoor> door_;
  std::unique_ptr<AccessFile> access_file_;  // or null
  std::optional<Ticker> access_looks_;       // at it, until the door is shut
};

}  // namespace kiln

#endif  // KILN_SERVER_WIRED_DAEMON_H_
