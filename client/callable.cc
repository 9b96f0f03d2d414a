// The part of session.h that runs what a session compiled.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/large_constants.h"
#include "client/session.h"
#include "proto/base/refusal.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/key/request_digest.h"
#include "runtime/artifact_view.h"
#include "runtime/check_inputs.h"

namespace kiln {
namespace {

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

}  // namespace

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
