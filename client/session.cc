#include "client/session.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/daemon_settings.h"
#include "client/daemon_status.h"
#include "client/large_constants.h"
#include "client/tell_of_device.h"
#include "proto/base/refusal.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/key/cache_namespace.h"
#include "proto/key/request_digest.h"
#include "runtime/artifact_view.h"
#include "runtime/check_inputs.h"
#include "runtime/device_target.h"
#include "runtime/loaded_artifact.h"

namespace kiln {
namespace {

using Constants = absl::Span<const InputValue>;

// What an artifact is asked for.
struct Asked {
  const Digest& request_digest;
  const std::string& cache_namespace;
  Constants constants;  // that every run of it is given
};

// A signature says who made an artifact, and not that it is what was asked for.
absl::Status CheckAnswers(const ArtifactView& view, const Asked& asked) {
  const Digest& request_digest = asked.request_digest;
  // A key that counts in one namespace vouches for nothing in another. What is
  // not signed is this process's own.
  if (view.is_signed() && view.cache_namespace() != asked.cache_namespace) {
    return MakeError(ErrorReason::kArtifactUntrusted,
                     absl::StrCat("artifact: signed for namespace \"",
                                  view.cache_namespace(), "\", expected \"",
                                  asked.cache_namespace, "\""));
  }
  if (view.request_digest() == request_digest.bytes()) return absl::OkStatus();
  const auto found = Digest::FromBytes(view.request_digest());
  return MakeError(
      ErrorReason::kArtifactIncompatible,
      absl::StrCat("artifact: answers request ",
                   found.has_value() ? found->ShortHex() : "of no digest",
                   ", expected ", request_digest.ShortHex()));
}

absl::StatusOr<std::shared_ptr<const Executor>> LoadOn(
    const OpenedDevice& device, const wire::SignedArtifact& artifact,
    const Asked& asked, const TrustPolicy& trust) {
  ASSIGN_OR_RETURN(
      ArtifactView view,
      ArtifactView::Parse(artifact, trust, device.device->traits()));
  RETURN_IF_ERROR(CheckAnswers(view, asked));
  ASSIGN_OR_RETURN(auto loaded, LoadedArtifact::Load(std::move(view), device));
  return Executor::Create(std::move(loaded), asked.constants);
}

// Whether calls that `now` serves are served as well by `next`, which answers
// the same request.
absl::Status CheckReplaces(const ArtifactView& now, const ArtifactView& next) {
  if (next.interface_digest() != now.interface_digest()) {
    return MakeError(ErrorReason::kArtifactIncompatible,
                     "artifact: its inputs or results differ in layout from "
                     "those of the artifact that it would replace");
  }
  const bool same_guards = std::equal(
      now.guards().begin(), now.guards().end(), next.guards().begin(),
      next.guards().end(), [](const PlanGuard& a, const PlanGuard& b) {
        return a.condition == b.condition;
      });
  if (same_guards) return absl::OkStatus();
  return MakeError(
      ErrorReason::kArtifactIncompatible,
      absl::StrCat("artifact: relies on ", next.guards().size(),
                   " guards, expected the same ", now.guards().size(),
                   " as the artifact that it would replace"));
}

// Fills in the settings of the environment if the options name no daemon.
absl::Status TakeSettings(SessionOptions& options) {
  if (options.local_only || !options.daemon.socket.empty() ||
      !options.daemon.tcp.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(DaemonSettings found, ReadDaemonSettings());
  if (found.daemons.empty()) return absl::OkStatus();
  options.daemon = std::move(found.daemons.front());
  found.daemons.erase(found.daemons.begin());
  options.more_daemons = std::move(found.daemons);
  options.trusted_keys.insert(options.trusted_keys.end(),
                              found.public_keys.begin(),
                              found.public_keys.end());
  if (options.cache_namespace.empty())
    options.cache_namespace = std::move(found.cache_namespace);
  if (options.urgency == wire::URGENCY_INTERACTIVE)
    options.urgency = found.urgency;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Session>> Session::Open(SessionOptions options) {
  RETURN_IF_ERROR(TakeSettings(options));
  ASSIGN_OR_RETURN(options.cache_namespace,
                   NamespaceNamed(options.cache_namespace));
  ASSIGN_OR_RETURN(OpenedDevice device, OpenDevice(options.device));
  wire::Target target = options.target.has_value()
                            ? *options.target
                            : TargetOf(device.device->traits());
  std::shared_ptr<Session> session(
      new Session(std::move(options), std::move(device), std::move(target)));
  if (session->daemon_ == nullptr) return session;
  const absl::Status reached = session->daemon_->Connect();
  if (!reached.ok() &&
      (session->local_worker_ == nullptr || !DaemonIsNotThere(reached))) {
    return reached;
  }
  return session;
}

Session::Session(SessionOptions options, OpenedDevice device,
                 wire::Target target)
    : options_(std::move(options)),
      device_(std::move(device)),
      target_(std::move(target)),
      graphs_(SessionGraphs::WhereAsked(device_, options_.graphs)) {
  if (options_.local_only || options_.fallback == Fallback::kLocalWorker) {
    local_worker_ = std::make_unique<LocalWorker>(options_.local_worker);
  }
  if (options_.local_only) return;
  DaemonLinkOptions link = {
      .daemon = options_.daemon,
      .compile_deadline = options_.compile_deadline,
      // Without a local worker there is nobody else to ask.
      .silence_pause = local_worker_ == nullptr ? absl::ZeroDuration()
                                                : options_.silence_pause,
      .on_progress = options_.on_progress,
      .find_daemon = options_.find_daemon};
  if (!options_.more_daemons.empty()) link.find_daemon = nullptr;
  std::vector<DaemonLinkOptions> links = {link};
  for (const DaemonAddress& daemon : options_.more_daemons) {
    link.daemon = daemon;
    links.push_back(link);
  }
  daemon_ = std::make_unique<DaemonRoutes>(std::move(links));
}

absl::StatusOr<CompileOutcome> Session::CompileOnly(
    const wire::CompileRequest& request, CompileReport& report) {
  const SteadyTime start = SteadyNow();
  absl::StatusOr<CompileOutcome> answer =
      absl::UnavailableError("the daemon is not asked");
  if (daemon_ != nullptr) {
    answer = daemon_->Compile(request);
    report.daemon_status = answer.status();
  }
  if (!answer.ok() && local_worker_ != nullptr &&
      (DaemonIsNotThere(answer.status()) ||
       KnowsOtherOptions(answer.status()))) {
    answer = AskLocalWorker(request, report);
  }
  if (!answer.ok()) return answer;
  report.compile = Since(start);
  report.served_from = answer->served_from;
  report.units_built = answer->units_built;
  report.units_cached = answer->units_cached;
  report.measured = answer->measured;
  return answer;
}

absl::StatusOr<CompileOutcome> Session::AskLocalWorker(
    const wire::CompileRequest& request, CompileReport& report) {
  report.by_local_worker = true;
  absl::StatusOr<CompileOutcome> answer = local_worker_->Compile(
      request, {.deadline = SteadyIn(options_.local_deadline)});
  if (answer.ok() && request.options().max_autotune()) {
    answer->measured = absl::UnavailableError(
        "tune: no daemon answered; only a daemon measures and keeps decisions");
  }
  return answer;
}

std::shared_ptr<const Executor> Session::LoadFromShelf(
    const wire::CompileRequest& request, Constants constants,
    CompileReport& report) const {
  if (options_.shelf == nullptr) return nullptr;
  const SteadyTime start = SteadyNow();
  const auto canonical = CanonicalizeRequest(request);
  if (!canonical.ok()) return nullptr;  // said again by whoever compiles
  const auto artifact =
      options_.shelf->Find(canonical->digest.total, canonical->values);
  if (artifact == nullptr) return nullptr;
  const SteadyTime found = SteadyNow();
  auto executor = Load(*artifact, canonical->digest.total, constants);
  if (!executor.ok()) return nullptr;
  options_.shelf->AddUsed(*artifact);
  report.compile = Between(start, found);
  report.load = Since(found);
  report.served_from = wire::CompileResult::SERVED_FROM_CACHE;
  return *std::move(executor);
}

absl::StatusOr<std::shared_ptr<const Executor>> Session::CompileAndLoad(
    const wire::CompileRequest& request, Constants constants,
    CompileReport& report) {
  if (auto loaded = LoadFromShelf(request, constants, report)) return loaded;
  ASSIGN_OR_RETURN(CompileOutcome outcome, CompileOnly(request, report));
  const SteadyTime compiled = SteadyNow();
  auto executor =
      report.by_local_worker
          ? LoadOwn(outcome, constants)
          : Load(outcome.artifact, outcome.request_digest, constants);
  report.load = Since(compiled);
  if (executor.ok() && !report.by_local_worker && options_.shelf != nullptr) {
    options_.shelf->AddUsed(outcome.artifact);
  }
  if (executor.ok() || local_worker_ == nullptr || report.by_local_worker ||
      !DaemonLies(executor.status())) {
    return executor;
  }
  report.daemon_status = executor.status();
  ASSIGN_OR_RETURN(outcome, AskLocalWorker(request, report));
  report.served_from = outcome.served_from;
  return LoadOwn(outcome, constants);
}

absl::StatusOr<std::shared_ptr<const Executor>> Session::Load(
    const wire::SignedArtifact& artifact, const Digest& request_digest,
    Constants constants) const {
  const Asked asked = {request_digest, options_.cache_namespace, constants};
  auto executor = LoadOn(device_, artifact, asked, Trust());
  if (ReasonOf(executor.status()) == ErrorReason::kArtifactUntrusted) {
    // The daemon may have another key by now.
    RefreshTrust();
    executor = LoadOn(device_, artifact, asked, Trust());
  }
  if (!executor.ok()) ++refused_artifacts_;
  return executor;
}

TrustPolicy Session::Trust() const {
  TrustPolicy trust;
  trust.keys = options_.trusted_keys;
  if (daemon_ != nullptr) trust.keys.Merge(daemon_->keys());
  return trust;
}

void Session::RefreshTrust() const {
  if (daemon_ == nullptr) return;
  IgnoreBecause(daemon_->RefreshKeys(),
                "without a daemon the known keys stay in force");
}

absl::StatusOr<ArtifactShelf::Entry> Session::Verify(
    wire::SignedArtifact artifact) const {
  ASSIGN_OR_RETURN(
      const ArtifactView view,
      ArtifactView::Parse(artifact, Trust(), device_.device->traits()));
  const std::optional<Digest> request =
      Digest::FromBytes(view.request_digest());
  if (!request.has_value()) {
    return MakeError(ErrorReason::kArtifactCorrupt,
                     "artifact: does not name the request that it answers");
  }
  return ArtifactShelf::Entry{
      .artifact =
          std::make_shared<const wire::SignedArtifact>(std::move(artifact)),
      .request_digest = *request,
      .guards = view.guards()};
}

absl::StatusOr<std::shared_ptr<const Executor>> Session::LoadOwn(
    const CompileOutcome& outcome, Constants constants) const {
  TrustPolicy trust;
  trust.unsigned_artifacts = TrustPolicy::Unsigned::kAllow;
  auto executor = LoadOn(
      device_, outcome.artifact,
      {outcome.request_digest, options_.cache_namespace, constants}, trust);
  if (!executor.ok()) ++refused_artifacts_;
  return executor;
}

absl::StatusOr<wire::CompileRequest> Session::RequestFor(
    const wire::Graph& graph, const wire::CompileOptions& options) const {
  wire::CompileRequest request;
  ASSIGN_OR_RETURN(*request.mutable_graph(), WithLargeConstantsAsInputs(graph));
  for (wire::Node& node : *request.mutable_graph()->mutable_nodes())
    node.clear_stack_trace();
  *request.mutable_target() = target_;
  *request.mutable_options() = options;
  request.set_cache_namespace(options_.cache_namespace);
  request.set_urgency(options_.urgency);
  // Another machine's driver may be another, and its libraries.
  if (!options_.target.has_value()) TellOfDevice(device_, request);
  return request;
}

absl::StatusOr<std::shared_ptr<Callable>> Session::Compile(
    const wire::Graph& graph, const wire::CompileOptions& options) {
  ASSIGN_OR_RETURN(wire::CompileRequest request, RequestFor(graph, options));
  ASSIGN_OR_RETURN(auto constants, UploadLargeConstants(graph, device_));
  std::shared_ptr<Callable> callable(new Callable(
      shared_from_this(), graph, std::move(request), std::move(constants)));
  RETURN_IF_ERROR(callable->CompileFor(callable->request_));
  return callable;
}

Callable::Callable(std::shared_ptr<Session> session, const wire::Graph& graph,
                   wire::CompileRequest request,
                   std::vector<InputValue> constants)
    : session_(std::move(session)),
      request_(std::move(request)),
      constants_(std::move(constants)) {
  for (const wire::Node& node : graph.nodes())
    stack_traces_.push_back(node.stack_trace());
}

ClientNode Callable::Node(uint32_t node) const {
  if (node >= stack_traces_.size()) return {};
  const wire::Node& of = request_.graph().nodes(static_cast<int>(node));
  return {of.name().c_str(), of.op().c_str(), stack_traces_[node].c_str()};
}

absl::Status Callable::CompileFor(const wire::CompileRequest& request) {
  CompileReport report;
  auto made = session_->CompileAndLoad(request, constants_, report);
  if (!made.ok()) return NameOperators(made.status(), request.graph());
  std::shared_ptr<const Executor> executor = *std::move(made);
  const ArtifactView& view = executor->artifact().view();
  RETURN_IF_ERROR(CheckConstantsStay(view.message().compiled().plan(),
                                     static_cast<int>(constants_.size())));
  CompiledGuards guards(view.plan(), view.guards());
  auto slot = std::make_shared<HotSlot>();
  // The slot was empty: there is nothing to drop.
  static_cast<void>(slot->Publish(std::move(executor)));
  auto next = std::make_shared<Entries>();
  const std::shared_ptr<const Entries> now = entries();
  if (now != nullptr) *next = *now;
  next->guards = now == nullptr ? GuardTable().With(std::move(guards))
                                : now->guards->With(std::move(guards));
  next->slots.push_back(std::move(slot));
  MutexLock lock(&mu_);
  entries_ = std::move(next);
  report_ = std::move(report);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<OutputValue>> Callable::Run(
    absl::Span<const InputValue> inputs, const RunOptions& options) {
  RETURN_IF_ERROR(CheckPlaces(inputs, device().device->traits()));
  return RunViews(ViewsOf(inputs), options);
}

absl::StatusOr<std::vector<OutputValue>> Callable::RunViews(
    absl::Span<const InputView> inputs, const RunOptions& options) {
  if (constants_.empty()) return RunAll(inputs, options);
  if (inputs.size() != static_cast<size_t>(num_inputs())) {
    return MakeError(
        ErrorReason::kGuardFailed,
        absl::StrCat(inputs.size(), " inputs, expected ", num_inputs()));
  }
  const RunWithConstants run(inputs, constants_, options);
  return RunAll(run.inputs(), run.options());
}

absl::StatusOr<std::vector<OutputValue>> Callable::RunAll(
    absl::Span<const InputView> inputs, const RunOptions& options) {
  std::shared_ptr<const Entries> now = entries();
  int index = now->guards->Find(inputs);
  if (index < 0) {
    RETURN_IF_ERROR(Specialize(inputs));
    now = entries();
    index = now->guards->Find(inputs);
    if (index < 0) {
      return MakeError(
          ErrorReason::kGuardFailed,
          now->guards->entry(now->guards->size() - 1).WhyNot(inputs));
    }
  }
  const std::shared_ptr<const Executor> executor = now->slots[index]->Acquire();
  if (session_->graphs_ == nullptr) {
    return executor->RunGuarded(inputs, options);
  }
  return session_->graphs_->Run(
      executor, inputs, [this] { return StaticInputs(); }, options);
}

absl::Status Callable::SetStaticInputs(std::vector<int> inputs) {
  for (const int input : inputs) {
    if (input >= 0 && input < num_inputs()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("static inputs: found ", input, ", expected one of ",
                     num_inputs(), " inputs, from 0"));
  }
  MutexLock lock(&mu_);
  static_inputs_ = std::move(inputs);
  return absl::OkStatus();
}

std::vector<int> Callable::StaticInputs() const {
  std::vector<int> all;
  {
    MutexLock lock(&mu_);
    all = static_inputs_;
  }
  for (int i = num_inputs(); i < request_.graph().inputs_size(); ++i) {
    all.push_back(i);
  }
  return all;
}

// Compiles an artifact for inputs that none serves: their sizes are the hints,
// and what failed for them may not be relied on.
absl::Status Callable::Specialize(absl::Span<const InputView> inputs) {
  const SessionOptions& options = session_->options_;
  const SteadyTime deadline =
      SteadyIn(options.compile_deadline + options.local_deadline);
  ASSIGN_OR_RETURN(const TimedLock::Taken taken,
                   specializing_.Take(deadline, "another artifact"));
  const std::shared_ptr<const Entries> now = entries();
  if (now->guards->Find(inputs) >= 0) return absl::OkStatus();
  // Artifacts speak of symbols in canonical order, and so must this request.
  ASSIGN_OR_RETURN(CanonicalRequest canonical, CanonicalizeRequest(request_));
  wire::CompileRequest& request = canonical.request;
  for (int i = 0; i < now->guards->size(); ++i) {
    const CompiledGuards& entry = now->guards->entry(i);
    const CompiledGuards::Mismatch mismatch = entry.Examine(inputs);
    if (mismatch.hopeless) {
      return MakeError(ErrorReason::kGuardFailed, entry.WhyNot(inputs));
    }
    for (const SymProgram& condition : mismatch.forbidden) {
      *request.mutable_forbidden()->add_symbols()->mutable_condition() =
          condition.ToWire();
    }
    for (const auto& [input, bytes] : mismatch.alignments) {
      request.mutable_graph()->mutable_inputs(input)->set_alignment_bytes(
          bytes);
    }
    for (int s = 0; s < request.graph().symbols_size(); ++s) {
      request.mutable_graph()->mutable_symbols(s)->set_hint(
          mismatch.symbols[s]);
    }
  }
  RETURN_IF_ERROR(CompileFor(request));
  std::string why = now->guards->entry(now->guards->size() - 1).WhyNot(inputs);
  MutexLock lock(&mu_);
  failed_guards_.push_back(std::move(why));
  return absl::OkStatus();
}

absl::Status Callable::Swap(int index, const wire::SignedArtifact& artifact) {
  const std::shared_ptr<const Entries> now = entries();
  if (index < 0 || index >= now->guards->size()) {
    return absl::OutOfRangeError(
        absl::StrCat("entry ", index, ", of ", now->guards->size()));
  }
  HotSlot& slot = *now->slots[index];
  const std::shared_ptr<const Executor> serving = slot.Acquire();
  const ArtifactView& due = serving->artifact().view();
  const std::optional<Digest> request = Digest::FromBytes(due.request_digest());
  if (!request.has_value()) {
    return absl::InternalError("current artifact: does not name its request");
  }
  ASSIGN_OR_RETURN(auto next, session_->Load(artifact, *request, constants_));
  RETURN_IF_ERROR(CheckReplaces(due, next->artifact().view()));
  // Dropped here, on the swapping thread: no run waits for the unloading.
  const std::shared_ptr<const Executor> old = slot.Publish(std::move(next));
  Forget(old);
  return absl::OkStatus();
}

std::shared_ptr<const Callable::Entries> Callable::entries() const {
  MutexLock lock(&mu_);
  return entries_;
}

CompileReport Callable::report() const {
  MutexLock lock(&mu_);
  return report_;
}

int Callable::compiles() const { return entries()->guards->size(); }

std::vector<std::string> Callable::failed_guards() const {
  MutexLock lock(&mu_);
  return failed_guards_;
}

std::shared_ptr<const Executor> Callable::executor() const {
  return entries()->slots[0]->Acquire();
}

}  // namespace kiln
