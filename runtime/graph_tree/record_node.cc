#include "runtime/graph_tree/record_node.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/captures_under_way.h"
#include "runtime/graph_tree/path.h"

namespace kiln::graph_tree {
namespace {

using Kind = OutputRule::Kind;

Path PathOf(const Node* node) { return node ? Path(node->path) : Path(); }

void ChooseUses(Node& node, const Call& call) {
  const Path before = PathOf(node.parent);
  const int inputs = static_cast<int>(call.inputs.size());
  node.uses.resize(inputs);
  node.addresses.resize(inputs);
  node.preserved.resize(inputs);
  for (int i = 0; i < inputs; ++i) {
    const Input& input = call.inputs[i];
    if (!input.is_tensor) continue;
    if (IsManaged(before, input.storage_address)) {
      node.uses[i] = InputUse::kManaged;
      node.managed.push_back(i);
    } else {
      node.uses[i] = IsStatic(*node.function, i, input.address)
                         ? InputUse::kStatic
                         : InputUse::kCopied;
    }
    if (node.uses[i] != InputUse::kCopied) node.addresses[i] = input.address;
  }
}

// Addresses of memory that outlives the graph: of static inputs and constants.
absl::flat_hash_set<const void*> PersistentAddresses(const Node& node,
                                                     const Call& call) {
  absl::flat_hash_set<const void*> persistent;
  for (const Constant& constant : node.function->constants) {
    persistent.insert(constant.storage_address);
  }
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (node.uses[i] == InputUse::kStatic) {
      persistent.insert(call.inputs[i].storage_address);
    }
  }
  return persistent;
}

bool IsInput(const Call& call, const void* storage_address) {
  return std::any_of(
      call.inputs.begin(), call.inputs.end(), [&](const Input& input) {
        return input.is_tensor && input.storage_address == storage_address;
      });
}

// While these are there, what others drop stays live, as if they had waited for
// the end of the recording: no replay would know of it. Inputs that go with the
// call go with a replay as well.
std::vector<std::shared_ptr<void>> HoldForRecording(const Surroundings& around,
                                                    const Call& call,
                                                    Path before) {
  return HoldAll(before, [&](const LiveStorage& live) {
    const Tensor cached = before[live.output.depth]->cached(live.output.output);
    return IsInput(call, live.address) &&
           !around.recorder->OutlivesInputs(call, live.storage, cached);
  });
}

// Whether its memory is that of a managed input, which replays then keep.
void PreserveInputs(Node& node, const Call& call, const void* address) {
  for (const int input : node.managed) {
    if (call.inputs[input].storage_address == address) {
      node.preserved[input] = true;
    }
  }
}

// Decides how replays give the outputs, one after the other.
class Classifier {
 public:
  Classifier(Node& node, const Call& call, Liveness& liveness)
      : node_(node),
        call_(call),
        liveness_(liveness),
        persistent_(PersistentAddresses(node, call)) {}

  absl::Status Add(const Output& output) {
    const int index = static_cast<int>(node_.rules.size());
    if (output.is_tensor && !output.on_device &&
        output.storage_address != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Expected all cuda outputs in cuda graph recording. Non cuda output "
          "from ",
          index < static_cast<int>(node_.function->output_traces.size())
              ? node_.function->output_traces[index]
              : std::string("(unknown)")));
    }
    OutputRule rule;
    PathIndex aliased;
    rule.kind = Choose(output, index, rule.index, aliased);
    node_.rules.push_back(rule);
    node_.aliased.push_back(aliased);
    NodeOutput& kept = node_.outputs.emplace_back();
    if (rule.kind == Kind::kValue || rule.kind == Kind::kStatic) {
      return absl::OkStatus();
    }
    kept.storage = WatchedStorage(liveness_, output.storage);
    kept.address = output.storage_address;
    return absl::OkStatus();
  }

 private:
  Kind Choose(const Output& output, int index, int& own, PathIndex& aliased) {
    const void* address = output.storage_address;
    if (!output.is_tensor) return Kind::kValue;
    // What has no memory has no liveness to follow.
    if (address == nullptr || persistent_.contains(address)) {
      return Kind::kStatic;
    }
    const Path before = PathOf(node_.parent);
    if (const auto found = FindLive(before, address)) {
      OutputRule& earlier = before[found->depth]->rules[found->output];
      if (earlier.kind == Kind::kCached) {
        before[found->depth]->recording->DropCached(found->output);
        earlier.kind = Kind::kFresh;
      }
      PreserveInputs(node_, call_, address);
      aliased = *found;
      return Kind::kOfStorage;
    }
    const auto [first, is_new] = own_.insert({address, index});
    if (is_new) return Kind::kCached;
    own = first->second;
    node_.rules[own].kind = Kind::kFresh;
    return Kind::kOfOutput;
  }

  Node& node_;
  const Call& call_;
  Liveness& liveness_;
  const absl::flat_hash_set<const void*> persistent_;
  absl::flat_hash_map<const void*, int> own_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Node>> RecordNode(const Surroundings& around,
                                                 const Function& function,
                                                 Node* parent, int id,
                                                 Call& call) {
  auto node = std::make_unique<Node>(function, parent, id);
  const Path before = PathOf(parent);
  ChooseUses(*node, call);
  const auto held = HoldForRecording(around, call, before);
  const std::vector<PathIndex> live_before = LiveOutputs(before);
  if (parent != nullptr) {
    node->dead_before = Died(parent->live_after, live_before);
  }
  {
    const CaptureUnderWay capture;
    ASSIGN_OR_RETURN(node->recording,
                     around.recorder->Record(function, call, node->uses));
  }
  for (const PathIndex& at : Died(live_before, LiveOutputs(before))) {
    const bool is_input =
        IsInput(call, before[at.depth]->outputs[at.output].address);
    (is_input ? node->dead_after : node->dead_before).push_back(at);
  }
  Classifier classifier(*node, call, *around.liveness);
  for (const Output& output : node->recording->outputs()) {
    RETURN_IF_ERROR(classifier.Add(output));
  }
  node->live_after = LiveOutputs(node->path);
  ASSIGN_OR_RETURN(node->pool_state, around.pool->Checkpoint());
  RETURN_IF_ERROR(node->recording->FirstRun(call, node->rules));
  return node;
}

absl::StatusOr<std::unique_ptr<Node>> WarmUpNode(const Surroundings& around,
                                                 const Function& function,
                                                 Node* parent, int id,
                                                 Call& call) {
  auto node = std::make_unique<Node>(function, parent, id);
  // Storages that are not the path's, by identity: the warm-up may get the
  // address of an input that it has dropped. Watched, so that an identity
  // stays taken.
  std::vector<WatchedStorage> foreign;
  absl::flat_hash_set<Storage> foreign_storages;
  const auto add = [&](Storage storage) {
    foreign.emplace_back(*around.liveness, storage);
    foreign_storages.insert(storage);
  };
  absl::flat_hash_set<Storage> own;
  for (const LiveStorage& live : LiveStorages(PathOf(parent))) {
    own.insert(live.storage);
  }
  for (const Input& input : call.inputs) {
    if (input.is_tensor && !own.contains(input.storage)) add(input.storage);
  }
  for (const Constant& constant : function.constants) add(constant.storage);

  ASSIGN_OR_RETURN(const std::vector<Output> outputs,
                   around.recorder->WarmUp(function, call));
  for (const Output& output : outputs) {
    NodeOutput& kept = node->outputs.emplace_back();
    if (!output.is_tensor || !output.on_device ||
        output.storage_address == nullptr ||
        foreign_storages.contains(output.storage)) {
      continue;
    }
    kept.storage = WatchedStorage(*around.liveness, output.storage);
    kept.address = output.storage_address;
  }
  return node;
}

absl::Status ReplayNode(const Surroundings& around, Node& node, Call& call) {
  const size_t outputs = node.rules.size();
  std::vector<Storage> storages(outputs);
  for (size_t i = 0; i < outputs; ++i) {
    if (node.rules[i].kind != Kind::kOfStorage) continue;
    const PathIndex at = node.aliased[i];
    node.rules[i].storage =
        node.path[at.depth]->outputs[at.output].storage.get();
  }
  RETURN_IF_ERROR(
      node.recording->Replay(call, node.rules, absl::MakeSpan(storages)));
  for (size_t i = 0; i < outputs; ++i) {
    NodeOutput& output = node.outputs[i];
    if (output.address != nullptr && output.storage.get() != storages[i]) {
      output.storage = WatchedStorage(*around.liveness, storages[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln::graph_tree
