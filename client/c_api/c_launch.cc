#include "client/c_api/c_launch.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/c_api/c_status.h"
#include "client/c_api/kiln_graphs.h"

// A launch with its facts, once they were asked for.
struct KilnLaunch {
  const kiln::Launch* launch;
  std::string name;
  std::optional<kiln::LaunchFacts> facts;
  std::string operators;
  std::vector<KilnValue> arguments;
  const kiln::Callable* callable;
  std::vector<KilnNode> nodes;
};

namespace kiln {

CallerHooks::CallerHooks(const KilnRunOptions& options,
                         const Callable& callable)
    : options_(options), callable_(callable) {}
CallerHooks::~CallerHooks() = default;

void CallerHooks::Enter(const Launch& launch) {
  now_ = std::make_unique<KilnLaunch>(KilnLaunch{
      &launch, std::string(launch.name()), {}, {}, {}, &callable_, {}});
  options_.on_launch(options_.launch_context, now_.get(), 0);
}

void CallerHooks::Exit(const Launch&) {
  options_.on_launch(options_.launch_context, now_.get(), 1);
  now_.reset();
}

namespace {

KilnValue ValueOf(const LaunchArgument& argument) {
  KilnValue value = {};
  if (!argument.is_tensor) return value;
  value.kind = KILN_TENSOR;
  value.dtype = static_cast<KilnDType>(argument.dtype);
  value.rank = static_cast<int32_t>(argument.sizes.size());
  value.sizes = argument.sizes.data();
  return value;
}

void Learn(KilnLaunch& launch) {
  if (launch.facts.has_value()) return;
  launch.facts = launch.launch->Facts();
  launch.operators = absl::StrJoin(launch.facts->operators, ",");
  for (const LaunchArgument& argument : launch.facts->arguments) {
    launch.arguments.push_back(ValueOf(argument));
  }
  for (const uint32_t number : launch.facts->client_nodes) {
    const ClientNode node = launch.callable->Node(number);
    launch.nodes.push_back({node.name, node.op, node.stack_trace});
  }
}

KilnLaunchFacts ToC(const KilnLaunch& launch) {
  const LaunchFacts& facts = *launch.facts;
  KilnLaunchFacts out = {};
  out.symbol = facts.symbol.c_str();
  out.operators = launch.operators.c_str();
  out.stream = facts.stream;
  std::copy(std::begin(facts.grid), std::end(facts.grid), out.grid);
  std::copy(std::begin(facts.block), std::end(facts.block), out.block);
  out.shared_bytes = facts.shared_bytes;
  out.cluster = facts.cluster;
  out.arguments = launch.arguments.data();
  out.argument_count = static_cast<int32_t>(launch.arguments.size());
  out.mapping = facts.mapping.c_str();
  out.extents = facts.extents.data();
  out.extent_count = static_cast<int32_t>(facts.extents.size());
  out.bytes_read = facts.bytes_read;
  out.bytes_written = facts.bytes_written;
  out.source = facts.source.data();
  out.source_length = facts.source.size();
  out.nodes = launch.nodes.data();
  out.node_count = static_cast<int32_t>(launch.nodes.size());
  return out;
}

}  // namespace

std::string CallableNodes::Of(uint32_t node) const {
  const ClientNode of = callable_.Node(node);
  std::string words = absl::StrCat(of.name, ": ", of.op);
  if (*of.stack_trace != '\0') absl::StrAppend(&words, ", at ", of.stack_trace);
  return words;
}

}  // namespace kiln

const char* kiln_launch_name(const KilnLaunch* launch) {
  return launch->name.c_str();
}

KilnStatus* kiln_launch_facts(KilnLaunch* launch, KilnLaunchFacts* facts) {
  absl::Status sound = kiln::CheckGiven("launch", launch);
  if (sound.ok()) {
    sound = kiln::CheckStruct("launch facts", facts,
                              offsetof(KilnLaunchFacts, nodes));
  }
  if (!sound.ok()) return kiln::StatusOf(sound);
  kiln::Learn(*launch);
  KilnLaunchFacts known = kiln::ToC(*launch);
  known.struct_size = facts->struct_size;
  std::memcpy(facts, &known, std::min(sizeof(known), facts->struct_size));
  return nullptr;
}

KilnTrace* kiln_trace_new(void) { return new KilnTrace; }

void kiln_trace_free(KilnTrace* trace) { delete trace; }

int64_t kiln_trace_now(void) { return kiln::Trace::Now(); }

void kiln_trace_add_replay(KilnTrace* trace, int64_t start,
                           const char* const* kernels, int32_t count) {
  trace->trace.AddReplay(start, {kernels, kernels + count});
}

size_t kiln_trace_json(const KilnTrace* trace, char* buffer, size_t size) {
  const std::string json = trace->trace.ToJson();
  if (size > 0) {
    const size_t length = std::min(json.size(), size - 1);
    json.copy(buffer, length);
    buffer[length] = '\0';
  }
  return json.size();
}
