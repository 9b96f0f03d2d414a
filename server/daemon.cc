#include "server/daemon.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "server/signer.h"

namespace kiln {
namespace {

// Runners beyond one a worker: jobs that wait for their last units while the
// workers plan others.
constexpr int kExtraRunners = 2;

// How long calls that have their answer may take to send it at the end.
constexpr absl::Duration kAnswerGrace = absl::Seconds(2);

// How often in idle_exit a daemon looks whether it was used: it ends at most a
// tenth later than it said.
constexpr int kLooksWhileIdle = 10;

// Its own owner's only, made with its parents when absent.
absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && chmod(path.c_str(), 0700) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (!error && access(path.c_str(), W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (!error) return absl::OkStatus();
  return MakeError(
      ErrorReason::kStorage,
      absl::StrCat("data folder ", path, ": ", error.message(),
                   "; name one that can be written with --data-folder"));
}

WorkerLimits LimitsOf(const Config& config) {
  WorkerLimits limits;
  limits.program = config.worker_program;
  limits.args = config.worker_args;
  limits.env = config.worker_env;
  limits.wall = config.worker_timeout;
  limits.cpu = config.worker_cpu_limit;
  limits.memory_bytes = config.worker_memory_bytes;
  return limits;
}

int WorkersOf(const Config& config) {
  if (config.worker_count > 0) return static_cast<int>(config.worker_count);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Config& config,
                                                      uid_t allowed_uid) {
  auto daemon = absl::WrapUnique(new Daemon(config));
  // The socket first: a second daemon is told so before it touches anything.
  if (!config.socket.empty()) {
    ASSIGN_OR_RETURN(ListenSocket socket, ListenSocket::Open(config.socket));
    daemon->socket_ = std::make_unique<ListenSocket>(std::move(socket));
  }
  RETURN_IF_ERROR(MakeFolder(config.data_folder));
  RETURN_IF_ERROR(daemon->OpenStores(config.data_folder));
  RETURN_IF_ERROR(daemon->StartRooms());
  RETURN_IF_ERROR(daemon->OpenDoor(allowed_uid));
  LogInfo("daemon.started", {{"version", kKilndVersion},
                             {"socket", config.socket},
                             {"tcp_port", daemon->tcp_port()},
                             {"data", config.data_folder},
                             {"workers", daemon->pool_->size()}});
  return daemon;
}

Daemon::Daemon(const Config& config)
    : config_(config),
      queue_(config.queue_limit),
      jobs_(queue_, clock_, counters_, config.poison_time) {}

absl::Status Daemon::OpenStores(const std::string& folder) {
  ASSIGN_OR_RETURN(SigningKey key,
                   LoadOrMakeSigningKey(absl::StrCat(folder, "/signing.key")));
  signer_ = std::make_unique<const SigningKey>(key);
  CacheOptions options;
  // Builds before record version 2 have theirs in "cache", which stays as it is.
  options.folder = absl::StrCat(folder, "/records");
  options.artifact_bytes = config_.cache_budget_bytes;
  options.memory_bytes = config_.memory_tier_bytes;
  options.min_free_bytes = config_.min_free_bytes;
  ASSIGN_OR_RETURN(cache_,
                   CacheStack::Open(options, std::move(key), {}, clock_));
  return absl::OkStatus();
}

absl::Status Daemon::StartRooms() {
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
                        .signer = *signer_,
                        .counters = counters_,
                        .pass_times = pass_times_});
  flow_ = std::make_unique<CompileFlow>(*pool_, cache_->tuning(),
                                        cache_->artifacts(), jobs_, counters_);
  runners_ = std::make_unique<JobRunners>(pool_->size() + kExtraRunners, queue_,
                                          jobs_, *job_);
  threads_ = std::make_unique<CallThreads>(config_.max_waiting_calls);
  compile_service_ = std::make_unique<CompileService>(
      *flow_, *threads_, counters_, *pool_,
      CompileService::Facts{
          .version = std::string(kKilndVersion),
          .public_key = std::string(signer_->public_key().bytes()),
          .max_message_bytes = config_.max_message_bytes,
          .write_timeout = config_.write_timeout});
  admin_service_ = std::make_unique<AdminService>(
      AdminService::Rooms{.cache = *cache_,
                          .jobs = jobs_,
                          .pool = *pool_,
                          .threads = *threads_,
                          .counters = counters_,
                          .pass_times = pass_times_},
      AdminService::Facts{.version = std::string(kKilndVersion),
                          .data_folder = config_.data_folder},
      [this] { RequestDrain(); });
  return absl::OkStatus();
}

absl::Status Daemon::OpenDoor(uid_t allowed_uid) {
  ASSIGN_OR_RETURN(
      door_, FrontDoor::Open({.socket = config_.socket,
                              .allowed_uid = allowed_uid,
                              .tcp = config_.tcp,
                              .max_message_bytes = config_.max_message_bytes},
                             std::move(socket_),
                             {compile_service_.get(), admin_service_.get()},
                             counters_));
  door_->SetServing(true);
  return absl::OkStatus();
}

// The pool first: its end answers the jobs under way, those answer their calls,
// and then nobody waits for what is not going to come.
Daemon::~Daemon() {
  jobs_.Drain();
  queue_.Close();
  if (pool_ != nullptr) pool_->End();
  if (door_ != nullptr) door_->Shut(kAnswerGrace);
  threads_.reset();
  runners_.reset();
}

void Daemon::WaitForDrainRequest() {
  const absl::Duration idle_exit = config_.idle_exit == absl::ZeroDuration()
                                       ? absl::InfiniteDuration()
                                       : config_.idle_exit;
  auto counted = counters_.Snapshot();
  absl::Time last_use = clock_.Now();
  while (!DrainRequestedWithin(idle_exit / kLooksWhileIdle)) {
    auto now = counters_.Snapshot();
    if (now != counted || !jobs_.WaitUntilEmpty(absl::ZeroDuration())) {
      counted = std::move(now);
      last_use = clock_.Now();
    } else if (clock_.Now() - last_use >= idle_exit) {
      LogInfo("daemon.idle", {{"for", absl::FormatDuration(idle_exit)}});
      return;
    }
  }
}

bool Daemon::DrainRequestedWithin(absl::Duration time) {
  const absl::Time deadline = clock_.Now() + time;
  MutexLock lock(&mu_);
  while (!draining_) {
    const absl::Duration left = deadline - clock_.Now();
    if (left <= absl::ZeroDuration()) return false;
    drain_requested_.WaitFor(&mu_, left);
  }
  return true;
}

void Daemon::RequestDrain() {
  MutexLock lock(&mu_);
  draining_ = true;
  drain_requested_.SignalAll();
}

bool Daemon::Drain() {
  LogInfo("drain.started");
  door_->SetServing(false);
  jobs_.Drain();
  const absl::Time deadline = absl::Now() + config_.drain_timeout;
  const bool emptied = jobs_.WaitUntilEmpty(config_.drain_timeout);
  if (!emptied) pool_->End();
  // Answers are on their way out: calls under way get what is left of the time.
  // A client that is merely connected gets none of it, since whoever starts a
  // daemon meanwhile waits for the lock of this one.
  threads_->WaitUntilIdle(deadline - absl::Now());
  door_->Shut(kAnswerGrace);
  LogInfo("drain.done", {{"jobs_left", !emptied}});
  return emptied;
}

}  // namespace kiln
