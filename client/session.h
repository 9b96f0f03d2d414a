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

// What to do when no daemon answers in time.
enum class Fallback {
  kError,        // return the error
  kLocalWorker,  // compile in a worker process that this client starts
};

struct SessionOptions {
  // Without an address, the daemons, the namespace and the urgency come from the
  // environment and kiln.toml (daemon_settings.h).
  DaemonAddress daemon;
  // Other daemons that serve the same requests. Each request goes to one of them; all
  // clients with the same list choose the same one. If it is gone, the next is asked
  // (daemon_routes.h), and `find_daemon` is not called.
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
  // Keys whose artifacts are loaded in addition to the daemon's: those that sign
  // bundles.
  std::vector<PublicKey> trusted_keys;
  // Keeps the artifacts that this session uses. Artifacts from bundles are looked up
  // here before a daemon is asked. Sessions may share it. Null: no shelf.
  std::shared_ptr<ArtifactShelf> shelf;
  // The namespace of its artifacts (proto/key/cache_namespace.h). Empty: "default".
  std::string cache_namespace;
  // The daemon may put compiles of a more urgent session first.
  wire::Urgency urgency = wire::URGENCY_INTERACTIVE;
  // The instruction level to compile for. Empty: the device's own.
  std::optional<wire::Target> target;
  // With a value, runs are recorded and replayed as device graphs where the device
  // supports that, one run at a time (session_graphs.h). Use it for programs whose
  // short kernels wait for the host. A result is then valid until the next step begins
  // (MarkStepBegin), or for as long as the caller keeps it if no step ever begins.
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

// Where one compile was done, and how long it took.
struct CompileReport {
  wire::CompileResult::ServedFrom served_from =
      wire::CompileResult::SERVED_FROM_UNSPECIFIED;
  bool by_local_worker = false;
  absl::Status daemon_status;  // why the local worker was used
  absl::Duration compile;      // request to artifact bytes
  absl::Duration load;         // artifact bytes to executor
  int units_built = 0;
  int units_cached = 0;
  absl::Status measured;  // CompileOutcome::measured
};

class Callable;

// A connection to a daemon (or a local worker) and an open device. It compiles graphs
// and makes them callable. Thread-safe. Its callables keep it alive.
class Session : public std::enable_shared_from_this<Session> {
 public:
  // Errors: NO_DEVICE; BAD_OPTION for a bad option, variable or file of settings;
  // UNAVAILABLE if there is no daemon and the fallback is kError. With kLocalWorker a
  // missing daemon is not an error.
  static absl::StatusOr<std::shared_ptr<Session>> Open(SessionOptions options);

  // Compiles `graph`, loads it and returns a callable. A call with inputs for which
  // the artifact's guards fail compiles again, without the guard that failed
  // (Callable::Run).
  //
  // Constants of over 1 MiB are not sent (large_constants.h).
  //
  // Errors: those of large constants, of the compile (compile_client.h,
  // local_worker.h) and of the load (artifact_view.h, loaded_artifact.h, executor.h).
  absl::StatusOr<std::shared_ptr<Callable>> Compile(
      const wire::Graph& graph, const wire::CompileOptions& options = {});

  // The request that Compile sends: it has this session's target, namespace and
  // driver, large constants as inputs, and no stack traces of nodes, which never leave
  // the client. Errors: those of large constants.
  absl::StatusOr<wire::CompileRequest> RequestFor(
      const wire::Graph& graph, const wire::CompileOptions& options) const;

  // Compiles without loading. For targets that this machine does not have.
  absl::StatusOr<CompileOutcome> CompileOnly(
      const wire::CompileRequest& request, CompileReport& report);

  // Verifies a daemon's artifact, loads it on this session's device and binds it.
  //
  //   request_digest  of the request that it must answer (CompileOutcome)
  //   constants       the plan's last inputs, if they are the same in every run:
  //                   `fixed` of Executor::Create
  //
  // Errors: those of artifact_view.h, loaded_artifact.h and executor.h, among them
  //   ARTIFACT_UNTRUSTED     not signed by a key that is trusted in the session's
  //                          namespace, whatever the fallback
  //   ARTIFACT_INCOMPATIBLE  answers another request, even if its signature is good
  absl::StatusOr<std::shared_ptr<const Executor>> Load(
      const wire::SignedArtifact& artifact, const Digest& request_digest,
      absl::Span<const InputValue> constants = {}) const;

  // Checks an artifact from a bundle as Load does, but does not load it. Returns it as
  // an entry of a shelf. Errors: those of artifact_view.h; ARTIFACT_CORRUPT if it does
  // not say which request it answers.
  absl::StatusOr<ArtifactShelf::Entry> Verify(
      wire::SignedArtifact artifact) const;

  // Asks the daemon for its current keys. Call it before artifacts from other storage
  // are verified. Waits at most for the daemon's answer_timeout. If no daemon answers,
  // the keys stay as they are.
  void RefreshTrust() const;

  // Begins a step with the next run. From then on results of earlier steps may be
  // overwritten; passing one as an input is FAILED_PRECONDITION.
  void MarkStepBegin() const {
    if (graphs_ != nullptr) graphs_->MarkStepBegin();
  }
  // The session's device graphs; null without the option.
  SessionGraphs* graphs() const { return graphs_.get(); }

  // How many artifacts were refused so far, for any reason.
  int64_t refused_artifacts() const { return refused_artifacts_; }

  const OpenedDevice& device() const { return device_; }
  const wire::Target& target() const { return target_; }

 private:
  Session(SessionOptions options, OpenedDevice device, wire::Target target);

  friend class Callable;

  // The keys of the options and, once the daemon was reached, of the daemon.
  TrustPolicy Trust() const;
  // Loads the artifact that a bundle had for this request. Null if there is none or it
  // cannot be loaded here: a useless bundle is not an error.
  std::shared_ptr<const Executor> LoadFromShelf(
      const wire::CompileRequest& request,
      absl::Span<const InputValue> constants, CompileReport& report) const;
  // Loads an artifact of this session's own worker. It is unsigned, since it came over a
  // private socketpair.
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

// A node of the caller's graph, for messages. Lives as long as the callable.
struct ClientNode {
  const char* name = "";
  const char* op = "";
  const char* stack_trace = "";
};

// A compiled graph. Thread-safe: any number of threads may call Run at once.
class Callable {
 public:
  ~Callable() {
    const std::shared_ptr<const Entries> now = entries();
    if (now == nullptr) return;
    for (const auto& slot : now->slots) Forget(slot->Acquire());
  }

  // Runs the artifact whose guards hold for `inputs`. If none does, it compiles another
  // one.
  //
  // Errors: those of Executor::Run and Session::Compile; GUARD_FAILED if the graph
  // itself does not accept such inputs (dtype, rank, a constant size), with the first
  // difference.
  absl::StatusOr<std::vector<OutputValue>> Run(
      absl::Span<const InputValue> inputs, const RunOptions& options = {})
      ABSL_LOCKS_EXCLUDED(mu_);

  // The same for views of tensors on the session's device. The views are not copied.
  absl::StatusOr<std::vector<OutputValue>> RunViews(
      absl::Span<const InputView> inputs, const RunOptions& options)
      ABSL_LOCKS_EXCLUDED(mu_);

  // For sessions with graphs, before the first run. Declares inputs whose address stays
  // the same, such as weights: replays read them in place and copy all others. If one
  // moves after all, the run is recorded again. INVALID_ARGUMENT if a number is not that
  // of an input.
  absl::Status SetStaticInputs(std::vector<int> inputs)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Replaces entry `index` of the guard table (0: the first compiled) by `artifact`, from
  // the next Run on. Runs that have begun finish with the old one.
  //
  // Errors: those of Session::Load; ARTIFACT_INCOMPATIBLE if it answers another request
  // than that entry, or if its interface or guards differ: it must serve every call that
  // the entry serves.
  absl::Status Swap(int index, const wire::SignedArtifact& artifact)
      ABSL_LOCKS_EXCLUDED(mu_);

  // How many inputs the graph has, and so a run must have.
  int num_inputs() const {
    return request_.graph().inputs_size() - static_cast<int>(constants_.size());
  }
  const OpenedDevice& device() const { return session_->device(); }
  // The graph's node `node`. All fields are empty if it has no such node.
  ClientNode Node(uint32_t node) const;
  // The report of the latest compile.
  CompileReport report() const ABSL_LOCKS_EXCLUDED(mu_);
  // Artifacts compiled or fetched so far: one, unless guards failed.
  int compiles() const ABSL_LOCKS_EXCLUDED(mu_);
  // Why each artifact but the first was compiled: the guard of its predecessor that
  // failed for a run's inputs.
  std::vector<std::string> failed_guards() const ABSL_LOCKS_EXCLUDED(mu_);
  // The first artifact's executor, for tools that show plans and counters.
  std::shared_ptr<const Executor> executor() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend class Session;
  // Tells the session's graphs to drop an executor that is no longer used.
  void Forget(const std::shared_ptr<const Executor>& executor) const {
    if (session_->graphs_ != nullptr) session_->graphs_->Forget(executor);
  }
  // The artifacts and their guards. Never changed; replaced as a whole.
  struct Entries {
    std::shared_ptr<const GuardTable> guards;
    std::vector<std::shared_ptr<HotSlot>> slots;
  };

  Callable(std::shared_ptr<Session> session, const wire::Graph& graph,
           wire::CompileRequest request, std::vector<InputValue> constants);

  std::shared_ptr<const Entries> entries() const ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status CompileFor(const wire::CompileRequest& request)
      ABSL_LOCKS_EXCLUDED(mu_);
  // `inputs`: all inputs of the request's graph, including the large constants.
  absl::StatusOr<std::vector<OutputValue>> RunAll(
      absl::Span<const InputView> inputs, const RunOptions& options)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Specialize(absl::Span<const InputView> inputs)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The caller's static inputs and the large constants.
  std::vector<int> StaticInputs() const ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<Session> session_;
  const wire::CompileRequest request_;
  std::vector<std::string> stack_traces_;  // of the graph's nodes
  // The large constants, which are the request's last inputs. Declared before entries_,
  // so that they are destroyed after it: unloading waits for the runs that read them.
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
