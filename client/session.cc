#include "client/session.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/daemon_settings.h"
#include "client/daemon_status.h"
#include "client/large_constants.h"
#include "client/tell_of_device.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/key/cache_namespace.h"
#include "proto/key/request_digest.h"
#include "runtime/artifact_view.h"
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

}  // namespace kiln
