#include "runtime/graph_tree/invariants.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/graph_tree/path.h"

namespace kiln::graph_tree {
namespace {

bool HasMoved(const Node& node, const Call& call, int input) {
  return node.addresses[input] != nullptr &&
         node.addresses[input] != call.inputs[input].address;
}

bool ManagedInputsHaveMoved(const Node& node, const Call& call) {
  for (const int input : node.managed) {
    if (HasMoved(node, call, input)) return true;
  }
  return false;
}

// On the way of each replay, and mostly false: no branch an input.
bool AnyInputHasMoved(const Node& node, const Call& call) {
  const void* const* recorded = node.addresses.data();
  uintptr_t moved = 0;
  for (const Input& input : call.inputs) {
    const auto at = reinterpret_cast<uintptr_t>(*recorded++);
    const auto now = reinterpret_cast<uintptr_t>(input.address);
    moved |= at == 0 ? 0 : at ^ now;
  }
  return moved != 0;
}

// Nodes before `node`.
Path PathTo(const Node& node) {
  return Path(node.path).first(node.path.size() - 1);
}

// Whether something that must die with the inputs is held by others too.
bool OutlivesInputs(const Node& node, const Call& call,
                    const Recorder& recorder) {
  return std::any_of(
      node.dead_after.begin(), node.dead_after.end(), [&](const PathIndex& at) {
        const Node& of = *node.path[at.depth];
        return of.IsLive(at.output) &&
               recorder.OutlivesInputs(call,
                                       of.outputs[at.output].storage.get(),
                                       of.cached(at.output));
      });
}

std::string At(const std::vector<std::string>& texts, int input,
               absl::string_view otherwise) {
  return input < static_cast<int>(texts.size()) ? texts[input]
                                                : std::string(otherwise);
}

}  // namespace

absl::string_view MatchText(Match match) {
  switch (match) {
    case Match::kMatches:
      return "success";
    case Match::kManagedAddress:
      return "cudagraph managed tensor data pointer changed";
    case Match::kStillLive:
      return "expected dead indices before graph are live";
    case Match::kStaticAddress:
      return "static input data pointer changed";
  }
  return "";
}

absl::StatusOr<Match> CheckInvariants(const Node& node, Call& call,
                                      StaticAddresses addresses,
                                      Recorder& recorder) {
  if (ManagedInputsHaveMoved(node, call)) return Match::kManagedAddress;
  if (!AreDead(PathTo(node), node.dead_before)) return Match::kStillLive;
  if (addresses == StaticAddresses::kCompare && AnyInputHasMoved(node, call)) {
    return Match::kStaticAddress;
  }
  if (OutlivesInputs(node, call, recorder)) return Match::kStillLive;
  // What died in the recording must die now: after the replay is too late, its
  // memory is written over.
  for (const int input : node.managed) {
    if (!node.preserved[input]) recorder.DropInput(call, input);
  }
  if (!AreDead(PathTo(node), node.dead_after)) {
    return absl::InternalError(
        "TODO: graph recording observed an input tensor deallocate during "
        "graph  recording that did not occur during replay. Please file an "
        "issue.");
  }
  return Match::kMatches;
}

absl::Status CheckStaticInputs(const Node& node, const Call& call) {
  if (!AnyInputHasMoved(node, call)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      MismatchText(node, call, Match::kStaticAddress));
}

std::string MismatchText(const Node& node, const Call& call, Match match) {
  std::string text = absl::StrCat(MatchText(match), ".\n");
  for (int input = 0; input < static_cast<int>(call.inputs.size()); ++input) {
    if (!HasMoved(node, call, input)) continue;
    if (match == Match::kManagedAddress &&
        node.uses[input] != InputUse::kManaged) {
      continue;
    }
    absl::StrAppendFormat(
        &text,
        "input name: %s. data pointer changed from %d to %d. input stack "
        "trace: %s\n",
        At(node.function->input_names, input, absl::StrCat(input)),
        reinterpret_cast<uintptr_t>(node.addresses[input]),
        reinterpret_cast<uintptr_t>(call.inputs[input].address),
        At(node.function->input_traces, input, "None"));
  }
  return text;
}

}  // namespace kiln::graph_tree
