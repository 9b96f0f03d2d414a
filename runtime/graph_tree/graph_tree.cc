#include "runtime/graph_tree/graph_tree.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/status.h"
#include "runtime/graph_tree/invalid_output.h"
#include "runtime/graph_tree/mutation_policy.h"
#include "runtime/graph_tree/path.h"
#include "runtime/graph_tree/pool_check.h"
#include "runtime/graph_tree/subtrees.h"

namespace kiln::graph_tree {
namespace {

constexpr int kMostFailures = 3;  // in a row: each may cost a pool

constexpr char kThreadText[] =
    "skipping cudagraph while another thread holds outputs of the last ones, "
    "for function ";

}  // namespace

GraphTree::GraphTree(const Surroundings& around, const Generations& generations,
                     std::string pool_name)
    : around_(around),
      generations_(generations),
      pool_name_(std::move(pool_name)) {}

int GraphTree::AddFunction(Function function) {
  function.id = static_cast<int>(functions_.size());
  functions_.push_back(std::make_unique<Function>(std::move(function)));
  return functions_.back()->id;
}

absl::Status GraphTree::Run(int function_id, Call& call) {
  if (is_shut_down_) {
    return absl::FailedPreconditionError("Running CUDAGraph after shutdown");
  }
  const Function& function = *functions_[function_id];
  if (is_running_ || without_graph_.contains(function_id)) {
    return RunPlainly(function, call);
  }
  const bool is_another = thread_.has_value() && *thread_ != call.thread;
  if (is_another && current_ != nullptr && !AllOutputsAreDead(*current_)) {
    if (warned_of_thread_.insert(function_id).second) {
      RETURN_IF_ERROR(Skip(function, absl::StrCat(kThreadText, function_id)));
    }
    return RunPlainly(function, call);
  }
  is_running_ = true;
  const auto done = absl::MakeCleanup([this] {
    is_running_ = false;
    if (is_shut_down_) LetGo();
  });
  if (is_another) {
    EndPath();
    RETURN_IF_ERROR(around_.recorder->ChangeThread());
  }
  thread_ = call.thread;
  RETURN_IF_ERROR(RunOnce(function, call));
  // Only now: a forward does not wait for its backward before it has run.
  if (function.mode == Mode::kForward) forwards_pending_ = true;
  if (function.mode == Mode::kBackward) forwards_pending_ = false;
  return absl::OkStatus();
}

absl::Status GraphTree::RunOnce(const Function& function, Call& call) {
  // Executions end below, and only where nothing matches: that is the fast way.
  if (state() == TreeState::kRecording || state() == TreeState::kWarmUp) {
    RETURN_IF_ERROR(TryEndUnreplayed(function, call));
  }
  ASSIGN_OR_RETURN(bool refused,
                   MutationIsRefused(function, call, Ask::kRemembered));
  if (refused || ExceedsRerecordLimit(function) || HasFailed(function)) {
    return RunPlainly(function, call);
  }
  if (NeedsWarmUp(function)) return WarmUp(function, call);

  const bool may_match = state() != TreeState::kRecording;
  std::string unexpected;
  if (may_match) {
    ASSIGN_OR_RETURN(Node * match, FindMatch(function, call, unexpected));
    if (match != nullptr) return Execute(*match, call);
    if (current_ != nullptr && roots_.contains(function.id)) {
      RETURN_IF_ERROR(TryEndExecution(call));
      if (current_ == nullptr) return RunOnce(function, call);
    }
  }
  if (!function.mutated_inputs.empty()) {
    // What was an output of a graph may be none any more.
    ASSIGN_OR_RETURN(refused, MutationIsRefused(function, call, Ask::kAnew));
    if (refused) return RunPlainly(function, call);
  }
  if (!unexpected.empty()) {
    RETURN_IF_ERROR(CountRerecord(function, unexpected));
    if (ExceedsRerecordLimit(function)) return RunPlainly(function, call);
  }
  if (may_match) {
    ++counters_.records_without_match;
    RETURN_IF_ERROR(TryEndExecution(call));
  }
  return Record(function, call);
}

absl::Status GraphTree::RunPlainly(const Function& function, Call& call) {
  ++counters_.plain_runs;
  RETURN_IF_ERROR(around_.recorder->RunPlainly(function, call));
  if (function.mode == Mode::kBackward) forwards_pending_ = false;
  return absl::OkStatus();
}

bool GraphTree::NeedsWarmUp(const Function& function) const {
  // The addresses of a warm-up are not those of a recording, so nothing else
  // follows one.
  return state() == TreeState::kWarmUp || function.options.always_warm_up ||
         (!function.options.skip_warm_up && !warmed_up_.contains(function.id));
}

absl::Status GraphTree::WarmUp(const Function& function, Call& call) {
  RETURN_IF_ERROR(around_.recorder->FindStorages(call));
  RETURN_IF_ERROR(RestorePoolFor(function));
  const bool first = !warmed_up_.contains(function.id);
  const bool check = function.options.check_pool && first;
  const auto path = [&] { return current_ ? Path(current_->path) : Path(); };
  if (check) {
    RETURN_IF_ERROR(CheckPool(*around_.pool, pool_name_, path()));
  }
  absl::StatusOr<std::unique_ptr<Node>> node =
      WarmUpNode(around_, function, current_, next_warm_up_--, call);
  if (!node.ok()) return Failed(function, node.status());
  failures_.erase(function.id);
  ++counters_.warm_ups;
  warmed_up_.insert(function.id);
  warm_ups_.push_back(*std::move(node));
  Enter(warm_ups_.back().get(), TreeState::kWarmUp);
  return check ? CheckPool(*around_.pool, pool_name_, path())
               : absl::OkStatus();
}

absl::Status GraphTree::Record(const Function& function, Call& call) {
  RETURN_IF_ERROR(around_.recorder->FindStorages(call));
  RETURN_IF_ERROR(RestorePoolFor(function));
  absl::StatusOr<std::unique_ptr<Node>> recorded =
      RecordNode(around_, function, current_, next_graph_++, call);
  if (absl::IsUnimplemented(recorded.status())) {
    RETURN_IF_ERROR(GoWithoutGraph(
        function.id,
        absl::StrCat("skipping cudagraphs due to a recording that cannot be "
                     "made: ",
                     recorded.status().message())));
    return RunPlainly(function, call);
  }
  if (!recorded.ok()) return Failed(function, recorded.status());
  std::unique_ptr<Node> node = *std::move(recorded);
  absl::Status sound = CheckOutputs(*around_.pool, pool_name_, *node);
  if (sound.ok() && function.options.check_pool) {
    sound = CheckPool(*around_.pool, pool_name_, node->path);
  }
  if (!sound.ok()) {
    node.reset();
    return Failed(function, std::move(sound));
  }
  failures_.erase(function.id);
  ++counters_.recordings;
  counters_.recorded_copied_inputs +=
      std::count(node->uses.begin(), node->uses.end(), InputUse::kCopied);
  auto& siblings = ChildrenHere()[function.id];
  siblings.push_back(std::move(node));
  Enter(siblings.back().get(), TreeState::kRecording);
  return absl::OkStatus();
}

absl::Status GraphTree::Failed(const Function& function, absl::Status status) {
  if (++failures_[function.id] == kMostFailures) {
    // The call ends by what went wrong, not by this.
    IgnoreBecause(
        Skip(function,
             absl::StrFormat("skipping cudagraph since the warm-up or the "
                             "recording of function %d failed %d times in a "
                             "row",
                             function.id, kMostFailures)),
        "the call fails already");
  }
  if (!around_.pool->TakeAnother()) return status;
  if (!roots_.empty()) {
    Tell({TreeNote::Kind::kDropped, function.id,
          absl::StrFormat("all recordings are dropped, since the "
                          "warm-up or the recording of function "
                          "%d failed in their pool",
                          function.id)});
  }
  DropRecordings();
  return status;
}

absl::Status GraphTree::Execute(Node& node, Call& call) {
  if (!node.function->options.rerecord_on_moved_static_input) {
    RETURN_IF_ERROR(CheckStaticInputs(node, call));
  }
  Enter(&node, TreeState::kExecution);
  ++counters_.replays;
  return ReplayNode(around_, node, call);
}

void GraphTree::Enter(Node* node, TreeState state) {
  current_ = node;
  state_ = state;
  generation_ = generations_.current();
}

absl::StatusOr<Node*> GraphTree::FindMatch(const Function& function, Call& call,
                                           std::string& unexpected) {
  const auto addresses = function.options.rerecord_on_moved_static_input
                             ? StaticAddresses::kCompare
                             : StaticAddresses::kTrust;
  const auto& children = ChildrenHere();
  const auto candidates = children.find(function.id);
  if (candidates == children.end()) return nullptr;
  for (const std::unique_ptr<Node>& node : candidates->second) {
    ASSIGN_OR_RETURN(const Match match, CheckInvariants(*node, call, addresses,
                                                        *around_.recorder));
    if (match == Match::kMatches) return node.get();
    if (match != Match::kStillLive) {
      unexpected = MismatchText(*node, call, match);
    }
  }
  return nullptr;
}

absl::StatusOr<bool> GraphTree::MutationIsRefused(const Function& function,
                                                  Call& call, Ask ask) {
  if (function.mutated_inputs.empty()) return false;
  auto& decided = FollowersHere().refused_mutation;
  if (ask == Ask::kRemembered) {
    const auto found = decided.find(function.id);
    if (found != decided.end()) return found->second;
  }
  RETURN_IF_ERROR(around_.recorder->FindStorages(call));
  const Path path = current_ ? Path(current_->path) : Path();
  const int refused = CountRefusedMutations(
      function, call,
      function.options.mutation_of_managed_inputs ? path : Path());
  decided[function.id] = refused > 0;
  if (refused > 0 && warned_of_mutation_.insert(function.id).second) {
    RETURN_IF_ERROR(Skip(function, MutationText(function, refused)));
  }
  return refused > 0;
}

bool GraphTree::ExceedsRerecordLimit(const Function& function) const {
  if (!function.options.rerecord_limit.has_value()) return false;
  const auto& counts = FollowersHere().unexpected_rerecords;
  const auto count = counts.find(function.id);
  return count != counts.end() &&
         count->second > *function.options.rerecord_limit;
}

bool GraphTree::HasFailed(const Function& function) const {
  const auto count = failures_.find(function.id);
  return count != failures_.end() && count->second >= kMostFailures;
}

absl::Status GraphTree::CountRerecord(const Function& function,
                                      const std::string& unexpected) {
  ++FollowersHere().unexpected_rerecords[function.id];
  if (!ExceedsRerecordLimit(function)) {
    Tell({TreeNote::Kind::kRerecord, function.id,
          absl::StrCat("Re-recording function ", function.id, " due to ",
                       unexpected)});
    return absl::OkStatus();
  }
  return Skip(function,
              absl::StrFormat(
                  "skipping cudagraph due to function %d exceeding max "
                  "re-recording limit (=%d) on cudagraph node %s due to %s.",
                  function.id, *function.options.rerecord_limit,
                  current_ ? absl::StrCat(current_->id) : "None", unexpected));
}

bool GraphTree::CanStartGeneration() const {
  if (generation_ == generations_.current()) return false;
  return generations_.marked() || !forwards_pending_;
}

absl::Status GraphTree::TryEndUnreplayed(const Function& function, Call& call) {
  if (CanStartGeneration()) {
    RETURN_IF_ERROR(KeepGradients(call));
    InvalidateOutputs();
    EndPath();
  } else if (AllOutputsAreDead(*current_)) {
    EndPath();
  } else {
    WarnOfPendingBackwards(function);
  }
  return absl::OkStatus();
}

absl::Status GraphTree::TryEndExecution(Call& call) {
  if (current_ == nullptr) return absl::OkStatus();
  // Outputs that are still held may be written over: no allocator knows them.
  const bool begins = CanStartGeneration();
  if (begins) RETURN_IF_ERROR(KeepGradients(call));
  if (begins || AllOutputsAreDead(*current_)) EndPath();
  return absl::OkStatus();
}

absl::Status GraphTree::KeepGradients(Call& call) {
  const std::vector<Storage> live = MayHoldGradients(current_->path);
  return live.empty() ? absl::OkStatus()
                      : around_.recorder->KeepGradients(call, live);
}

void GraphTree::EndPath() {
  current_ = nullptr;
  warm_ups_.clear();
  if (!removed_.empty()) DropRemoved();
}

void GraphTree::InvalidateOutputs() {
  for (const LiveStorage& live : LiveStorages(current_->path)) {
    const Function& function = *current_->path[live.output.depth]->function;
    around_.liveness->Invalidate(
        live.storage, InvalidOutputText(function, live.output.output));
  }
}

void GraphTree::WarnOfPendingBackwards(const Function& function) {
  if (warned_of_pending_.contains(function.id) ||
      generation_ == generations_.current()) {
    return;
  }
  absl::flat_hash_set<int> parents;
  size_t same = 0;
  const auto add_parent = [&](const Node& node) {
    if (node.parent != nullptr) parents.insert(node.parent->function->id);
  };
  for (const Node* node : current_->path) {
    if (node->function->id != function.id) continue;
    ++same;
    add_parent(*node);
  }
  add_parent(*current_);
  // With a new parent each time it is not a pattern that repeats.
  if (same <= 1 || parents.size() == same) return;
  warned_of_pending_.insert(function.id);
  Tell({TreeNote::Kind::kWarning, function.id,
        "Unable to hit fast path of CUDAGraphs because of pending, uninvoked "
        "backwards. Consider running with torch.no_grad() or using "
        "torch.compiler.cudagraph_mark_step_begin() before each model "
        "invocation"});
}

absl::Status GraphTree::RestorePool() {
  // After a warm-up or a recording the pool's books are right.
  if (state() != TreeState::kExecution) return absl::OkStatus();
  ++counters_.checkpoints;
  // Cached tensors would keep memory that nobody uses.
  for (Node* node : current_->path) {
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      node->recording->DropCached(static_cast<int>(i));
    }
  }
  // Asked once of each storage: another thread may drop it at any time.
  std::vector<Storage> live;
  absl::flat_hash_set<const void*> live_addresses;
  for (const LiveStorage& storage : LiveStorages(current_->path)) {
    live.push_back(storage.storage);
    live_addresses.insert(storage.address);
  }
  std::set<const void*> dead;  // aliases share one
  for (const PathIndex& at : current_->live_after) {
    const void* const address =
        current_->path[at.depth]->outputs[at.output].address;
    if (!live_addresses.contains(address)) dead.insert(address);
  }
  RETURN_IF_ERROR(around_.pool->Restore(*current_->pool_state, live));
  // From here on the pool's books are right again, whatever fails next.
  state_ = TreeState::kRecording;
  for (const void* address : dead) {
    RETURN_IF_ERROR(around_.pool->Free(address));
  }
  return absl::OkStatus();
}

absl::Status GraphTree::RestorePoolFor(const Function& function) {
  const bool check =
      function.options.check_pool && state() == TreeState::kExecution;
  RETURN_IF_ERROR(RestorePool());
  return check ? CheckPool(*around_.pool, pool_name_, current_->path)
               : absl::OkStatus();
}

absl::Status GraphTree::Skip(const Function& function, std::string text) {
  ++counters_.skips;
  Tell({TreeNote::Kind::kSkip, function.id, text});
  return function.options.skip_is_error ? absl::FailedPreconditionError(text)
                                        : absl::OkStatus();
}

void GraphTree::Shutdown() {
  is_shut_down_ = true;
  // A call under way reads the nodes of its path: it drops them at its end.
  if (!is_running_) LetGo();
}

void GraphTree::LetGo() {
  const bool any_live =
      current_ != nullptr && !LiveOutputs(current_->path).empty();
  if (any_live) {
    IgnoreBecause(RestorePool(), "the pool is gone already, by a failure");
  }
  DropRecordings();
}

void GraphTree::DropRecordings() {
  EndPath();
  DropNodes(TakeNodes(roots_));
}

void GraphTree::RemoveFunction(int function) {
  removed_.push_back(function);
  if (is_running_) return;
  if (current_ == nullptr || AllOutputsAreDead(*current_)) EndPath();
}

void GraphTree::DropRemoved() {
  const std::vector<int> removed = std::exchange(removed_, {});
  DropNodes(TakeNodesOf(removed, roots_, first_));
  for (const int id : removed) functions_[id].reset();
}

std::vector<const Node*> GraphTree::Roots() const {
  std::vector<const Node*> roots;
  for (const auto& [id, nodes] : roots_) {
    for (const std::unique_ptr<Node>& node : nodes) roots.push_back(node.get());
  }
  std::sort(roots.begin(), roots.end(),
            [](const Node* a, const Node* b) { return a->id < b->id; });
  return roots;
}

std::vector<TreeNote> GraphTree::TakeNotes() {
  return std::exchange(notes_, {});
}

void GraphTree::Tell(TreeNote note) {
  if (notes_.size() >= kMostNotes) notes_.erase(notes_.begin());
  notes_.push_back(std::move(note));
}

absl::Status GraphTree::GoWithoutGraph(int function, std::string why) {
  if (!without_graph_.insert(function).second || why.empty()) {
    return absl::OkStatus();
  }
  return Skip(*functions_[function], std::move(why));
}

}  // namespace kiln::graph_tree
