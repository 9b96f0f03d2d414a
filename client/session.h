#ifndef KILN_CLIENT_SESSION_H_
#define KILN_CLIENT_SESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/artifact_shelf.h"
#include "client/compile_client.h"
#include "client/daemon_routes.h"
#include "client/guard_table.h"
#include "client/local_worker.h"
#include "client/session_graphs.h"
#include "client/timed_lock.h"
#include "proto/base/mutex.h"
#include "runtime/artifact_view.h"
#include "runtime/executor.h"
#include "runtime/hot_slot.h"
#include "runtime/input_view.h"
#include "runtime/open_device.h"
#include "runtime/plan_graphs/graph_options.h"

namespace kiln {

// What to do when no daemon gives an answer in time.
enum class Fallback {
  kError,        // say so
  kLocalWorker,  // compile in a worker process of this client's own
};

struct SessionOptions {
  // No address: what the environment and kiln.toml say (daemon_settings.h), of
  // other daemons, the namespace and the urgency too.
  DaemonAddress daemon;
  // Other daemons that serve the same requests. Each request is asked of one of
  // all, the same for all clients that know the same daemons, and of the next
  // where that one is gone (daemon_routes.h); `find_daemon` is then not called.
  std::vector<DaemonAddress> more_daemons;
  // Skips the daemon altogether; needs a local worker.
  bool local_only = false;
  Fallback fallback = Fallback::kError;
  LocalWorkerOptions local_worker;
  DeviceConfig device;
  // How long one compile may take before the fallback. Too short and warm-up
  // falls back needlessly; too long and a hung daemon holds the program.
  absl::Duration compile_deadline = absl::Seconds(120);
  // How long the fallback may take after that.
  absl::Duration local_deadline = absl::Seconds(300);
  // Whose artifacts are loaded beside the daemon's own: the signers of bundles.
  std::vector<PublicKey> trusted_keys;
  // Where what this session uses is kept, and what came in bundles is found
  // before a daemon is asked. May be shared by sessions, or null: none.
  std::shared_ptr<ArtifactShelf> shelf;
  // Whose artifacts are asked for (proto/key/cache_namespace.h). Empty:
  // "default".
  std::string cache_namespace;
  // How soon its compiles are wanted; others' may come before.
  wire::Urgency urgency = wire::URGENCY_INTERACTIVE;
  // The instruction level that code is compiled for. Empty: the device's own.
  std::optional<wire::Target> target;
  // Runs are device graphs where the device captures, and one at a time
  // (session_graphs.h): for programs whose short kernels wait for the host.
  // Results are then the caller's until the next step that MarkStepBegin
  // begins; without such steps, as long as he likes.
  std::optional<GraphOptions> graphs;
  // Called with the graph's name and each Progress message of its compile, on the
  // thread that waits for the compile, so possibly on several at once. May be
  // empty.
  std::function<void(const std::string& graph, const wire::Progress&)>
      on_progress;
  // How long a daemon that did not answer is left alone while a local worker
  // compiles in its place; then one compile probes it. Too short: a hung daemon
  // delays the program again and again. Too long: its cache is not used although
  // it is back.
  absl::Duration silence_pause = absl::Minutes(1);
  // Called before the fallback when the daemon is gone or does not answer, on the
  // thread that waits for the compile, so possibly on several at once. Returns the
  // address of a daemon to use from then on: the same one, if it was restarted
  // there, or another. May be empty.
  std::function<std::optional<DaemonAddress>()> find_daemon;
};

// What one compile took and where it was done.
struct CompileReport {
  wire::CompileResult::ServedFrom served_from =
      wire::CompileResult::SERVED_FROM_UNSPECIFIED;
  bool by_local_worker = false;
  absl::Status daemon_status;  // why the local worker was asked
  absl::Duration compile;      // request to artifact bytes
  absl::Duration load;         // artifact bytes to executor
  int units_built = 0;
  int units_cached = 0;
  absl::Status measured;  // CompileOutcome's
};

class Callable;

// A connection to a daemon (or a local worker) and an open device: compiles
// graphs and makes them callable. Thread-safe; outlives its callables' use.
class Session : public std::enable_shared_from_this<Session> {
 public:
  // NO_DEVICE; BAD_OPTION, also for settings that are wrong; UNAVAILABLE when there
  // is no daemon and the fallback is kError. With kLocalWorker a missing daemon is
  // not an error.
  static absl::StatusOr<std::shared_ptr<Session>> Open(SessionOptions options);

  // Compiles `graph`, loads it and gives something to call. A call whose inputs
  // the artifact does not serve compiles again with the guard that failed
  // forbidden (see Callable::Run).
  //
  // Constants of over 1 MiB stay on this side (large_constants.h).
  //
  // Errors: of such constants; of the compile (compile_client.h, local_worker.h) and of the load
  // (artifact_view.h, loaded_artifact.h, executor.h).
  absl::StatusOr<std::shared_ptr<Callable>> Compile(
      const wire::Graph& graph, const wire::CompileOptions& options = {});

  // What Compile asks for: for this session's target, namespace and driver, with
  // large constants as inputs and without the nodes' stack traces, which stay on
  // this side. Errors: of such constants.
  absl::StatusOr<wire::CompileRequest> RequestFor(
      const wire::Graph& graph, const wire::CompileOptions& options) const;

  // The compile alone: nothing is loaded. For targets that are not here.
  absl::StatusOr<CompileOutcome> CompileOnly(
      const wire::CompileRequest& request, CompileReport& report);

  // Makes a daemon's artifact callable on this session's device: verify, load,
  // bind.
  //
  //   request_digest  of what was asked (CompileOutcome)
  //   constants       the plan's last inputs, where they are the same in every run:
  //                   `fixed` of Executor::Create
  //
  // Errors: those of artifact_view.h, loaded_artifact.h, executor.h; so
  //   ARTIFACT_UNTRUSTED     signed by no key of the daemon's that counts in the
  //                          session's namespace, whatever the fallback
  //   ARTIFACT_INCOMPATIBLE  it answers another request, however well signed
  absl::StatusOr<std::shared_ptr<const Executor>> Load(
      const wire::SignedArtifact& artifact, const Digest& request_digest,
      absl::Span<const InputValue> constants = {}) const;

  // An artifact that came in a bundle, as a shelf keeps it: checked as Load
  // checks it, and not loaded. Errors: those of artifact_view.h; CORRUPT when it
  // answers no request.
  absl::StatusOr<ArtifactShelf::Entry> Verify(
      wire::SignedArtifact artifact) const;

  // Asks the daemon for its keys again, before what was stored elsewhere is
  // believed. Waits for its answer_timeout at most; without a daemon the keys stay.
  void RefreshTrust() const;

  // The next run is the first of a step: results of graphs of earlier steps may
  // be overwritten, and are FAILED_PRECONDITION as inputs.
  void MarkStepBegin() const {
    if (graphs_ != nullptr) graphs_->MarkStepBegin();
  }
  // What the session's device graphs do; null without the option.
  SessionGraphs* graphs() const { return graphs_.get(); }

  // Artifacts that were not loaded so far, whatever was wrong with them.
  int64_t refused_artifacts() const { return refused_artifacts_; }

  const OpenedDevice& device() const { return device_; }
  const wire::Target& target() const { return target_; }

 private:
  Session(SessionOptions options, OpenedDevice device, wire::Target target);

  friend class Callable;

  // The daemon's keys, once it was reached, and those of the options.
  TrustPolicy Trust() const;
  // What came in a bundle for this request, loaded; null without, or when it
  // cannot be loaded here: a bundle may be useless and is never in the way.
  std::shared_ptr<const Executor> LoadFromShelf(
      const wire::CompileRequest& request,
      absl::Span<const InputValue> constants, CompileReport& report) const;
  // An artifact of this session's own worker, which came over a private
  // socketpair: it is not signed.
  absl::StatusOr<std::shared_ptr<const Executor>> LoadOwn(
      const CompileOutcome& outcome,
      absl::Span<const InputValue> constants) const;
  absl::StatusOr<std::shared_ptr<const Executor>> CompileAndLoad(
      const wire::CompileRequest& request,
      absl::Span<const InputValue> constants, CompileReport& report);
  absl::StatusOr<CompileOutcome> AskLocalWorker(
      const wire::CompileRequest& request, CompileReport& report);

  const SessionOptions options_;
  const OpenedDevice device_;
  const wire::Target target_;
  const std::unique_ptr<SessionGraphs> graphs_;  // null without the option
  std::unique_ptr<LocalWorker> local_worker_;    // null without one
  std::unique_ptr<DaemonRoutes> daemon_;         // null with local_only
  mutable std::atomic<int64_t> refused_artifacts_ = 0;
};

// A node of a graph as its caller gave it, for people. Lives as long as the
// callable.
struct ClientNode {
  const char* name = "";
  const char* op = "";
  const char* stack_trace = "";
};

// A compiled graph. Thread-safe: any number of threads may be in Run.
class Callable {
 public:
  ~Callable() {
    const std::shared_ptr<const Entries> now = entries();
    if (now == nullptr) return;
    for (const auto& slot : now->slots) Forget(slot->Acquire());
  }

  // Runs the artifact whose guards hold for `inputs`; compiles another one when
  // none does and another may.
  //
  // Errors: those of Executor::Run; those of Session::Compile; GUARD_FAILED
  // when the graph itself is not for such inputs (dtype, rank, a constant
  // size), naming the first that differs.
  absl::StatusOr<std::vector<OutputValue>> Run(
      absl::Span<const InputValue> inputs, const RunOptions& options = {})
      ABSL_LOCKS_EXCLUDED(mu_);

  // The same for inputs that are on the session's device, as their caller keeps
  // them: nothing of them is copied.
  absl::StatusOr<std::vector<OutputValue>> RunViews(
      absl::Span<const InputView> inputs, const RunOptions& options)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Of a session with graphs, before the first run: these inputs stay where they
  // are, as weights do, so that replays read them there and copy the others.
  // One that moves is recorded anew. INVALID_ARGUMENT: not the number of an input.
  absl::Status SetStaticInputs(std::vector<int> inputs)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Serves `artifact` from the next Run on, in place of entry `index` of the
  // guard table (0: the first compiled). Runs under way keep theirs.
  //
  // Errors: those of Session::Load; so ARTIFACT_INCOMPATIBLE when it answers
  // another request than that entry, and also when its interface or its guards
  // are others: calls that this entry serves must be served by the next.
  absl::Status Swap(int index, const wire::SignedArtifact& artifact)
      ABSL_LOCKS_EXCLUDED(mu_);

  // That a run is given: those of the graph.
  int num_inputs() const {
    return request_.graph().inputs_size() - static_cast<int>(constants_.size());
  }
  const OpenedDevice& device() const { return session_->device(); }
  // Of the graph's nodes, number `node`; empty words beyond the last.
  ClientNode Node(uint32_t node) const;
  // Of the latest compile.
  CompileReport report() const ABSL_LOCKS_EXCLUDED(mu_);
  // Artifacts compiled or fetched so far: one, unless guards failed.
  int compiles() const ABSL_LOCKS_EXCLUDED(mu_);
  // Why each artifact but the first was compiled: the guard of the one before it
  // that failed for a run's inputs.
  std::vector<std::string> failed_guards() const ABSL_LOCKS_EXCLUDED(mu_);
  // Of the first artifact; for those that show plans and counters.
  std::shared_ptr<const Executor> executor() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend class Session;
  // Has the session's graphs forget an executor that serves no more.
  void Forget(const std::shared_ptr<const Executor>& executor) const {
    if (session_->graphs_ != nullptr) session_->graphs_->Forget(executor);
  }
  // The artifacts and their guards, replaced as a whole.
  struct Entries {
    std::shared_ptr<const GuardTable> guards;
    std::vector<std::shared_ptr<HotSlot>> slots;
  };

  Callable(std::shared_ptr<Session> session, const wire::Graph& graph,
           wire::CompileRequest request, std::vector<InputValue> constants);

  std::shared_ptr<const Entries> entries() const ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status CompileFor(const wire::CompileRequest& request)
      ABSL_LOCKS_EXCLUDED(mu_);
  // `inputs`: of the request's graph, so the large constants too.
  absl::StatusOr<std::vector<OutputValue>> RunAll(
      absl::Span<const InputView> inputs, const RunOptions& options)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Specialize(absl::Span<const InputView> inputs)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The caller's and the large constants.
  std::vector<int> StaticInputs() const ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<Session> session_;
  const wire::CompileRequest request_;
  std::vector<std::string> stack_traces_;  // of the graph's nodes
  // The large ones, which are the request's last inputs. Before entries_, so
  // that it goes after them: unloading waits for the runs that read it.
  const std::vector<InputValue> constants_;
  TimedLock specializing_;  // one specialization at a time; taken before mu_
  mutable Mutex mu_;
  std::shared_ptr<const Entries> entries_ ABSL_GUARDED_BY(mu_);
  CompileReport report_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> failed_guards_ ABSL_GUARDED_BY(mu_);
  std::vector<int> static_inputs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CLIENT_SESSION_H_
