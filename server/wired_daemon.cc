#include "server/wired_daemon.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/bounded_log.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "server/data_folder.h"
#include "server/free_memory.h"
#include "server/open_far_store.h"
#include "server/service_methods.h"
#include "server/signer.h"

namespace kiln {
namespace {

// Runners in addition to one for each worker. They hold jobs that wait for their last
// units, while the workers plan other jobs.
constexpr int kExtraRunners = 2;

// The queue holds as many jobs as this many namespaces may have.
constexpr int64_t kNamespacesFilled = 16;

// The most calls that may wait for a thread to decode them, and their bytes. Many wait
// when all ranks of a large fleet start at once.
constexpr FairShare::Amount kMostNotLookedAt = {.places = 65536,
                                                .bytes = int64_t{1} << 30};

// The connections that an address may open at once before its rate is limited: as many
// as it may have at most, since all of them may reconnect together.
constexpr double kHandshakesAtOnce = 4096;

// At shutdown, the time that calls get to send the answers that they have.
constexpr absl::Duration kAnswerGrace = absl::Seconds(2);

// The configuration's file is read again for new access rules at this interval.
constexpr absl::Duration kAccessReread = absl::Seconds(5);

// How many times within idle_exit a daemon checks whether it was used. It exits at most
// a tenth of idle_exit too late.
constexpr int kLooksWhileIdle = 10;

WorkerLimits LimitsOf(const Config& config) {
  WorkerLimits limits;
  limits.program = config.worker_program;
  limits.args = config.worker_args;
  limits.env = config.worker_env;
  limits.wall = config.worker_timeout;
  limits.cpu = config.worker_cpu_limit;
  limits.memory_bytes = config.worker_memory_bytes;
  limits.keeps_level = config.worker_sandbox == kStrongestSandbox;
  if (!limits.keeps_level)
    limits.sandbox.weakest = *JailLevelFromName(config.worker_sandbox);
  limits.readable = config.worker_readable;
  return limits;
}

// How many descriptors this process may have.
int64_t DescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
}

// Whether users beside the owner connect to the socket.
bool NamesUsers(const std::vector<AccessRule>& rules) {
  return std::any_of(rules.begin(), rules.end(), [](const AccessRule& rule) {
    return absl::StartsWith(rule.who, "uid:");
  });
}

int WorkersOf(const Config& config) {
  if (config.worker_count > 0) return static_cast<int>(config.worker_count);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

absl::Status WiredDaemon::Open(uid_t owner) {
  // The socket first: if another daemon serves it, this one must fail before it touches
  // any data.
  if (!config_.socket.empty()) {
    ASSIGN_OR_RETURN(
        ListenSocket socket,
        ListenSocket::Open(config_.socket, NamesUsers(config_.access)));
    socket_ = std::make_unique<ListenSocket>(std::move(socket));
  }
  ASSIGN_OR_RETURN(const OpenFolder folder,
                   TakeDataFolder(config_.data_folder, config_.socket));
  RETURN_IF_ERROR(OpenStores(folder));
  RETURN_IF_ERROR(OpenAccess(owner, folder));
  RETURN_IF_ERROR(StartJobs());
  MakeServices();
  RETURN_IF_ERROR(OpenDoor());
  WatchAccess();
  LogInfo("daemon.started", {{"version", kKilndVersion},
                             {"socket", config_.socket},
                             {"tcp_port", tcp_port()},
                             {"data", config_.data_folder},
                             {"workers", pool_->size()}});
  return absl::OkStatus();
}

WiredDaemon::WiredDaemon(const Config& config,
                         std::shared_ptr<const Clock> clock)
    : config_(config),
      own_clock_(std::move(clock)),
      clock_(*own_clock_),
      queue_({.jobs_a_namespace = config.queue_limit,
              .jobs = kNamespacesFilled * config.queue_limit}),
      quarantine_(clock_, config.poison_time),
      jobs_(queue_, clock_, counters_, quarantine_),
      herald_(jobs_) {}

absl::Status WiredDaemon::OpenStores(const OpenFolder& folder) {
  ASSIGN_OR_RETURN(const TrustedKeys others, ParseKeys(config_.trusted_keys));
  ASSIGN_OR_RETURN(keys_, KeyStore::Open(folder, others, clock_));
  CacheOptions options;
  // Builds before record version 2 have theirs in "cache", which stays as it is.
  options.folder = folder.PathOf("records");
  options.budgets = {.bytes = config_.cache_budget_bytes,
                     .entries = config_.cache_budget_entries,
                     .unused = config_.cache_unused};
  ASSIGN_OR_RETURN(options.budgets.namespaces,
                   ParseNamespaceBudgets(config_.namespace_budgets));
  options.sync_every = config_.sync_every;
  options.memory_bytes = config_.memory_tier_bytes;
  options.min_free_bytes = config_.min_free_bytes;
  ASSIGN_OR_RETURN(options.far_store, OpenFarStore(config_));
  options.far = {.budget = config_.far_budget,
                 .queue_bytes = config_.far_queue_bytes,
                 .max_record_bytes = config_.far_max_record_bytes,
                 .ttl = config_.far_ttl};
  ASSIGN_OR_RETURN(options.far.namespace_budgets,
                   ParseNamespaceBudgets(config_.far_namespace_budgets));
  // Before the stores, which may meet what is not believed when they open.
  ASSIGN_OR_RETURN(audit_, AuditLog::Open(folder, clock_));
  const auto refused_from = [this](const char* who) {
    return [this, who](const Digest& key, const absl::Status& why) {
      audit_->Record(who, "get_record", absl::StrCat("key ", key.ShortHex()),
                     why);
    };
  };
  options.far.on_refused = refused_from("far");
  options.on_refused = refused_from("near");
  ASSIGN_OR_RETURN(cache_, CacheStack::Open(options, keys_->ring(), clock_));
  // The database's lock makes the folder this daemon's alone.
  keys_->KeepList();
  return absl::OkStatus();
}

absl::Status WiredDaemon::OpenAccess(uid_t owner, const OpenFolder& folder) {
  ASSIGN_OR_RETURN(tokens_, TokenStore::Open(folder, clock_));
  minutes_.emplace(absl::Minutes(1), [this](const std::atomic<bool>&) {
    audit_->Tick();
    LogCounted(SteadyNow());
    counters_.Add(Count::kMemoryReturned, ReturnFreeMemory());
  });
  if (!config_.tls_client_ca.empty()) {
    ASSIGN_OR_RETURN(certificates_,
                     ClientCertificates::Open(config_.tls_client_ca, clock_));
  }
  gate_ = std::make_unique<Gatekeeper>(
      Gatekeeper::Rooms{.peers = peers_,
                        .tokens = *tokens_,
                        .audit = *audit_,
                        .counters = counters_,
                        .certificates = certificates_.get()},
      Gatekeeper::Options{.owner = owner,
                          .network_is_plain = config_.tcp_plain,
                          .rules = config_.access});
  return absl::OkStatus();
}

absl::Status WiredDaemon::StartJobs() {
  ASSIGN_OR_RETURN(
      pool_, WorkerPool::Start(LimitsOf(config_), WorkersOf(config_),
                               absl::StrCat(config_.data_folder, "/scratch"),
                               counters_));
  units_ = std::make_unique<UnitBuilder>(*pool_, cache_->units(), counters_);
  job_ = std::make_unique<CompileJob>(
      CompileJob::Rooms{.jobs = jobs_,
                        .pool = *pool_,
                        .units = *units_,
                        .cache = cache_->artifacts(),
                        .keys = *keys_->ring(),
                        .counters = counters_,
                        .pass_times = pass_times_});
  if (config_.has_far()) {
    far_ =
        std::make_unique<FarLookups>(cache_->artifacts(), config_.far_budget);
  }
  FarTier* const tier = cache_->far();
  if (tier != nullptr && tier->leases() != nullptr &&
      config_.far_lease_wait > absl::ZeroDuration()) {
    leases_ = std::make_unique<JobLeases>(
        JobLeases::Rooms{.cache = cache_->artifacts(),
                         .tier = *tier,
                         .lookups = *far_,
                         .jobs = jobs_,
                         .queue = queue_,
                         .counters = counters_},
        config_.far_lease_wait);
  }
  flow_ = std::make_unique<CompileFlow>(*gate_, *pool_, cache_->tuning(),
                                        cache_->artifacts(), far_.get(), jobs_,
                                        counters_);
  jobs_.TellEnds([this](const Job& job, const absl::Status& status) {
    audit_->Record(job.caller, "compile", SubjectOf(*job.task), status);
  });
  runners_ = std::make_unique<JobRunners>(2 * (pool_->size() + kExtraRunners),
                                          queue_, jobs_, *job_, leases_.get());
  return absl::OkStatus();
}

void WiredDaemon::MakeServices() {
  at_socket_ = std::make_unique<ConnectionWatch>(
      QuietLimits(), clock_,
      [this](const std::string& peer, absl::string_view why) {
        const std::optional<uid_t> user = peers_.UserOf(peer);
        audit_->Record(user ? absl::StrCat("uid:", *user) : "uid:?", "connect",
                       why, MakeError(ErrorReason::kQueueFull, why));
        counters_.Add(Count::kPeersRefused);
      });
  unread_ = std::make_unique<UnreadCalls>(config_.write_timeout, *at_socket_,
                                          counters_);
  calls_ = std::make_unique<CompileStreams>(
      FairShare::Amount{.places = config_.max_waiting_calls,
                        .bytes = config_.max_answer_bytes},
      *unread_);
  lookups_ = std::make_unique<FairShare>(
      "lookups that were not taken, of caller",
      FairShare::Amount{.places = config_.max_lookups,
                        .bytes = config_.max_answer_bytes});
  executor_ = std::make_unique<CallExecutor>(
      static_cast<int>(std::max(2u, std::thread::hardware_concurrency())),
      kMostNotLookedAt);
  compile_service_ = std::make_unique<CompileService>(
      *gate_, *flow_, *executor_, *calls_, *lookups_, *unread_, counters_,
      *pool_, *keys_->ring(),
      CompileService::Facts{.version = std::string(kKilndVersion),
                            .max_message_bytes = config_.max_message_bytes});
  cache_service_ =
      std::make_unique<CacheService>(*gate_, cache_->near_records(), *unread_,
                                     counters_, config_.far_max_record_bytes);
  admin_service_ = std::make_unique<AdminService>(
      AdminService::Rooms{.gate = *gate_,
                          .tokens = *tokens_,
                          .keys = *keys_,
                          .cache = *cache_,
                          .jobs = jobs_,
                          .quarantine = quarantine_,
                          .pool = *pool_,
                          .counters = counters_,
                          .pass_times = pass_times_,
                          .unread = *unread_},
      AdminService::Facts{.version = std::string(kKilndVersion),
                          .data_folder = config_.data_folder,
                          .max_message_bytes = config_.max_message_bytes,
                          .max_answer_bytes = config_.max_answer_bytes},
      [this] { RequestDrain(); });
}

absl::Status WiredDaemon::OpenDoor() {
  DoorServices services;
  services.socket = {compile_service_.get(), admin_service_.get(),
                     cache_service_.get()};
  AddMethods(*compile_service_, services.network);
  // Who is admin, or another daemon, shows by certificate or token, and so not on a
  // plain port.
  if (!config_.tcp_plain) {
    AddMethods(*admin_service_, services.network);
    AddMethods(*cache_service_, services.network);
  }
  ASSIGN_OR_RETURN(
      door_,
      FrontDoor::Open({.tcp = config_.tcp,
                       .tls = {.certificate = config_.tls_certificate,
                               .key = config_.tls_key,
                               .client_ca = config_.tls_client_ca},
                       .max_message_bytes = config_.max_message_bytes,
                       .handshakes = {.at_once = kHandshakesAtOnce,
                                      .a_second = static_cast<double>(
                                          config_.peer_handshakes_a_second)},
                       .connections = LimitsForDescriptors(DescriptorLimit())},
                      std::move(socket_), std::move(services),
                      {.gate = *gate_,
                       .peers = peers_,
                       .audit = *audit_,
                       .counters = counters_,
                       .clock = clock_,
                       .at_socket = at_socket_.get()}));
  door_->SetServing(true);
  return absl::OkStatus();
}

void WiredDaemon::WatchAccess() {
  if (config_.file.empty()) return;
  access_file_ = std::make_unique<AccessFile>(
      config_.file, config_.access, *audit_,
      [this](const std::vector<AccessRule>& rules) {
        gate_->SetRules(rules);
        const absl::Status set = door_->SetForOthers(NamesUsers(rules));
        if (!set.ok())
          LogWarning("access.socket_mode", {{"error", set.ToString()}});
      });
  access_looks_.emplace(kAccessReread, [this](const std::atomic<bool>&) {
    access_file_->Look();
  });
}

// The pool first: its end answers the jobs under way, those answer their calls,
// and then nobody waits for what is not going to come.
WiredDaemon::~WiredDaemon() {
  access_looks_.reset();
  jobs_.Drain();
  if (leases_ != nullptr) leases_->End();
  queue_.Close();
  if (pool_ != nullptr) pool_->End();
  if (door_ != nullptr) door_->Shut(kAnswerGrace);
  executor_.reset();
  far_.reset();
  runners_.reset();
}

void WiredDaemon::WaitForDrainRequest() {
  const absl::Duration idle_exit = config_.idle_exit == absl::ZeroDuration()
                                       ? absl::InfiniteDuration()
                                       : config_.idle_exit;
  // Memory goes back to the machine also when nobody asks.
  const auto uses = [this] {
    auto all = counters_.Snapshot();
    std::erase_if(all, [](const auto& count) {
      return count.first == CountName(Count::kMemoryReturned);
    });
    return all;
  };
  auto counted = uses();
  SteadyTime last_use = clock_.Steady();
  while (!DrainRequestedWithin(idle_exit / kLooksWhileIdle)) {
    auto now = uses();
    if (now != counted || !jobs_.WaitUntilEmpty(absl::ZeroDuration())) {
      counted = std::move(now);
      last_use = clock_.Steady();
    } else if (Between(last_use, clock_.Steady()) >= idle_exit) {
      LogInfo("daemon.idle", {{"for", absl::FormatDuration(idle_exit)}});
      return;
    }
  }
}

bool WiredDaemon::DrainRequestedWithin(absl::Duration time) {
  const SteadyTime deadline = After(clock_.Steady(), time);
  MutexLock lock(&mu_);
  while (!draining_) {
    const absl::Duration left = Between(clock_.Steady(), deadline);
    if (left <= absl::ZeroDuration()) return false;
    drain_requested_.WaitFor(&mu_, left);
  }
  return true;
}

void WiredDaemon::RequestDrain() {
  MutexLock lock(&mu_);
  draining_ = true;
  drain_requested_.SignalAll();
}

bool WiredDaemon::Drain() {
  LogInfo("drain.started");
  door_->SetServing(false);
  access_looks_.reset();
  jobs_.Drain();
  const SteadyTime deadline = After(SteadyNow(), config_.drain_timeout);
  const bool emptied = jobs_.WaitUntilEmpty(config_.drain_timeout);
  if (!emptied) pool_->End();
  // Answers are on their way out: calls under way get what is left of the time.
  // A client that is merely connected gets none of it, since whoever starts a
  // daemon meanwhile waits for the lock of this one.
  calls_->WaitUntilNone(TimeLeft(deadline));
  door_->Shut(kAnswerGrace);
  LogInfo("drain.done", {{"jobs_left", !emptied}});
  return emptied;
}

}  // namespace kiln
