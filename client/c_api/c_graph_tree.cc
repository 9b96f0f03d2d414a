#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/c_api/c_graph_host.h"
#include "client/c_api/c_graph_report.h"
#include "client/c_api/c_status.h"
#include "client/c_api/kiln_graphs.h"
#include "proto/base/status.h"
#include "runtime/graph_tree/graph_tree.h"

using kiln::graph_tree::Call;
using kiln::graph_tree::Function;
using kiln::graph_tree::FunctionOptions;
using kiln::graph_tree::Generations;
using kiln::graph_tree::GraphTree;
using kiln::graph_tree::Mode;
using kiln::graph_tree::Node;
using kiln::graph_tree::PathIndex;

struct KilnGraphTree {
  KilnGraphTree(const KilnGraphHost& given, std::string pool_name)
      : host(given),
        tree({&host, &host, &host}, generations, std::move(pool_name)) {}

  kiln::CGraphHost host;
  Generations generations;
  GraphTree tree;
  // Of each function: how many inputs a call has, or at least how many until
  // one has run.
  struct InputCount {
    int32_t least = 0;
    bool is_known = false;
    bool is_removed = false;
  };
  std::vector<InputCount> input_counts;
};

namespace {

FunctionOptions OptionsOf(const KilnGraphFunction& given) {
  FunctionOptions options;
  if (given.rerecord_limit >= 0) options.rerecord_limit = given.rerecord_limit;
  options.rerecord_on_moved_static_input =
      given.moved_static_input_is_error == 0;
  options.mutation_of_managed_inputs = given.no_mutation_of_outputs == 0;
  options.skip_warm_up = given.skip_warm_up != 0;
  options.always_warm_up = given.always_warm_up != 0;
  options.check_pool = given.check_pool != 0;
  options.skip_is_error = given.skip_is_error != 0;
  return options;
}

int32_t AlignmentOf(const KilnGraphFunction& given) {
  const bool is_given =
      given.struct_size > offsetof(KilnGraphFunction, static_alignment);
  return is_given ? std::max(given.static_alignment, 1) : 1;
}

std::vector<std::string> TextsOf(const char* const* texts, int32_t count) {
  std::vector<std::string> all;
  for (int32_t i = 0; texts != nullptr && i < count; ++i) {
    all.push_back(texts[i] ? texts[i] : "");
  }
  return all;
}

// Numbers of inputs, how many of which there are is not known yet.
absl::Status CheckInputNumbers(absl::string_view name, const int32_t* numbers,
                               int32_t count) {
  RETURN_IF_ERROR(kiln::CheckArray(name, numbers, count));
  for (int32_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(kiln::CheckAtLeast(name, numbers[i], 0));
  }
  return absl::OkStatus();
}

// How many inputs a call must have for all that the function names.
int32_t LeastInputs(const KilnGraphFunction& function) {
  int32_t most = -1;
  for (int32_t i = 0; i < function.static_input_count; ++i) {
    most = std::max(most, function.static_inputs[i]);
  }
  for (int32_t i = 0; i < function.mutated_input_count; ++i) {
    most = std::max(most, function.mutated_inputs[i]);
  }
  return most + 1;
}

absl::Status CheckNumber(const KilnGraphTree& tree, int32_t function) {
  RETURN_IF_ERROR(
      kiln::CheckRange("function", function, 0,
                       static_cast<int64_t>(tree.input_counts.size()) - 1));
  if (!tree.input_counts[function].is_removed) return absl::OkStatus();
  return kiln::MakeError(kiln::ErrorReason::kBadOption,
                         absl::StrCat("function: ", function, " was removed"));
}

absl::Status CheckCall(const KilnGraphTree& tree, const KilnGraphCall* call) {
  RETURN_IF_ERROR(
      kiln::CheckStruct("call", call, offsetof(KilnGraphCall, thread)));
  RETURN_IF_ERROR(CheckNumber(tree, call->function));
  RETURN_IF_ERROR(kiln::CheckArray("inputs", call->inputs, call->count));
  const KilnGraphTree::InputCount& due = tree.input_counts[call->function];
  return due.is_known
             ? kiln::CheckRange("number of inputs", call->count, due.least,
                                due.least)
             : kiln::CheckAtLeast("number of inputs", call->count, due.least);
}

absl::Status CheckFunction(const KilnGraphFunction* given) {
  RETURN_IF_ERROR(kiln::CheckStruct(
      "function", given, offsetof(KilnGraphFunction, static_alignment)));
  RETURN_IF_ERROR(kiln::CheckRange("mode", kiln::NumberOf(given->mode), 0, 2));
  RETURN_IF_ERROR(CheckInputNumbers("static_inputs", given->static_inputs,
                                    given->static_input_count));
  RETURN_IF_ERROR(CheckInputNumbers("mutated_inputs", given->mutated_inputs,
                                    given->mutated_input_count));
  return kiln::CheckArray("constants", given->constants, given->constant_count);
}

Function FunctionOf(const KilnGraphFunction& given) {
  Function function;
  function.mode = static_cast<Mode>(given.mode);
  function.body = given.body;
  function.static_inputs.assign(given.static_inputs,
                                given.static_inputs + given.static_input_count);
  function.mutated_inputs.assign(
      given.mutated_inputs, given.mutated_inputs + given.mutated_input_count);
  for (int32_t i = 0; i < given.constant_count; ++i) {
    function.constants.push_back(
        {given.constants[i].storage, given.constants[i].storage_address});
  }
  function.input_names = TextsOf(given.input_names, given.input_text_count);
  function.input_traces = TextsOf(given.input_traces, given.input_text_count);
  function.output_traces =
      TextsOf(given.output_traces, given.output_trace_count);
  if (given.mutation_trace) function.mutation_trace = given.mutation_trace;
  function.static_alignment = AlignmentOf(given);
  function.options = OptionsOf(given);
  return function;
}

std::vector<KilnGraphIndex> IndicesOf(const std::vector<PathIndex>& given) {
  std::vector<KilnGraphIndex> indices;
  for (const PathIndex& at : given) indices.push_back({at.depth, at.output});
  return indices;
}

using TellNode = std::function<void(const KilnGraphNode&)>;

void TellOf(const Node& node, const TellNode& tell) {
  const auto before = IndicesOf(node.dead_before);
  const auto after = IndicesOf(node.dead_after);
  const auto live = IndicesOf(node.live_after);
  std::vector<int32_t> rules;
  for (const auto& rule : node.rules) {
    rules.push_back(static_cast<int32_t>(rule.kind));
  }
  KilnGraphNode told = {};
  told.id = node.id;
  told.function = node.function->id;
  told.depth = static_cast<int32_t>(node.path.size()) - 1;
  told.dead_before = before.data();
  told.dead_before_count = static_cast<int32_t>(before.size());
  told.dead_after = after.data();
  told.dead_after_count = static_cast<int32_t>(after.size());
  told.live_after = live.data();
  told.live_after_count = static_cast<int32_t>(live.size());
  told.rules = rules.data();
  told.output_count = static_cast<int32_t>(rules.size());
  told.addresses = node.addresses.data();
  told.input_count = static_cast<int32_t>(node.addresses.size());
  tell(told);
  for (const auto& [function, children] : node.children) {
    for (const auto& child : children) TellOf(*child, tell);
  }
}

}  // namespace

KilnStatus* kiln_graph_tree_new(const KilnGraphHost* host,
                                const char* pool_name, KilnGraphTree** tree) {
  absl::Status status = kiln::CheckStruct(
      "host", host, offsetof(KilnGraphHost, take_another_pool));
  if (status.ok()) status = kiln::CheckGiven("pool_name", pool_name);
  if (!status.ok()) return kiln::StatusOf(status);
  KilnGraphHost known = {};
  std::memcpy(&known, host, std::min(sizeof(known), host->struct_size));
  *tree = new KilnGraphTree(known, pool_name);
  return nullptr;
}

void kiln_graph_tree_free(KilnGraphTree* tree) { delete tree; }

KilnStatus* kiln_graph_tree_add(KilnGraphTree* tree,
                                const KilnGraphFunction* function,
                                int32_t* number) {
  absl::Status status = CheckFunction(function);
  if (status.ok()) status = kiln::CheckGiven("number", number);
  if (!status.ok()) return kiln::StatusOf(status);
  *number = tree->tree.AddFunction(FunctionOf(*function));
  tree->input_counts.push_back({.least = LeastInputs(*function)});
  return nullptr;
}

KilnStatus* kiln_graph_tree_remove(KilnGraphTree* tree, int32_t number) {
  const absl::Status sound = CheckNumber(*tree, number);
  if (!sound.ok()) return kiln::StatusOf(sound);
  tree->input_counts[number].is_removed = true;
  tree->tree.RemoveFunction(number);
  return nullptr;
}

KilnStatus* kiln_graph_tree_run(KilnGraphTree* tree,
                                const KilnGraphCall* given) {
  const absl::Status sound = CheckCall(*tree, given);
  if (!sound.ok()) return kiln::StatusOf(sound);
  Call call;
  call.caller = given->caller;
  if (given->struct_size > offsetof(KilnGraphCall, thread)) {
    call.thread = given->thread;
  }
  call.inputs.reserve(given->count);
  for (int32_t i = 0; i < given->count; ++i) {
    const KilnGraphInput& input = given->inputs[i];
    call.inputs.push_back({input.is_tensor != 0, input.address, input.storage,
                           input.storage_address});
  }
  tree->generations.Set(given->calls, given->marks);
  const int32_t function = given->function;
  const int32_t count = given->count;
  const absl::Status run = tree->tree.Run(function, call);
  if (run.ok()) {
    tree->input_counts[function].least = count;
    tree->input_counts[function].is_known = true;
  }
  return kiln::StatusOf(run);
}

void kiln_graph_tree_shutdown(KilnGraphTree* tree) { tree->tree.Shutdown(); }

void kiln_graph_tree_backward_ran(KilnGraphTree* tree) {
  tree->tree.BackwardRanElsewhere();
}

KilnStatus* kiln_graph_tree_report(const KilnGraphTree* tree,
                                   KilnGraphReport* report) {
  const absl::Status status = kiln::CheckStruct("report", report);
  if (!status.ok()) return kiln::StatusOf(status);
  kiln::TellReport(tree->tree, *report);
  return nullptr;
}

void kiln_graph_tree_nodes(const KilnGraphTree* tree,
                           void (*tell)(void* context, const KilnGraphNode*),
                           void* context) {
  for (const Node* root : tree->tree.Roots()) {
    TellOf(*root, [&](const KilnGraphNode& node) { tell(context, &node); });
  }
}

void kiln_graph_tree_notes(KilnGraphTree* tree,
                           void (*tell)(void* context, KilnGraphNoteKind kind,
                                        int32_t function, const char* text),
                           void* context) {
  kiln::TellNotes(tree->tree.TakeNotes(), tell, context);
}
