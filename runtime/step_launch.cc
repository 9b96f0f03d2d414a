#include "runtime/step_launch.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "proto/artifact.pb.h"
#include "proto/base/dtype.h"
#include "proto/base/sym_eval.h"

namespace kiln {
namespace {

const wire::LaunchPlan& PlanOf(const LoadedArtifact& artifact) {
  return artifact.view().message().compiled().plan();
}

const wire::LaunchStep& StepOf(const LoadedArtifact& artifact, int32_t step) {
  return PlanOf(artifact).steps(step).launch();
}

const wire::PlanKernel& KernelOf(const LoadedArtifact& artifact, int32_t step) {
  return PlanOf(artifact).kernels(
      static_cast<int>(StepOf(artifact, step).kernel()));
}

// 0 for an expression that is unsound: it is for people, and no plan relies on
// it.
int64_t ValueOf(const wire::SymExpr& expression,
                absl::Span<const int64_t> symbols) {
  const auto program =
      SymProgram::FromWire(expression, static_cast<int64_t>(symbols.size()));
  return program.ok() ? program->Evaluate(symbols) : 0;
}

std::vector<int64_t> ValuesOf(
    const google::protobuf::RepeatedPtrField<wire::SymExpr>& expressions,
    absl::Span<const int64_t> symbols) {
  std::vector<int64_t> values;
  for (const wire::SymExpr& expression : expressions) {
    values.push_back(ValueOf(expression, symbols));
  }
  return values;
}

LaunchArgument ArgumentOf(const wire::KernelArg& arg,
                          absl::Span<const int64_t> symbols) {
  if (!arg.has_buffer()) return {};
  LaunchArgument out;
  const std::optional<DType> dtype = DTypeFromWire(arg.buffer().dtype());
  out.is_tensor = dtype.has_value();
  out.dtype = dtype.value_or(DType::kUInt8);
  out.sizes = ValuesOf(arg.buffer().sizes(), symbols);
  return out;
}

// Blocks a cluster, which a kernel is built with: "XBLOCK=16,CLUSTER=4". 0: none.
uint32_t ClusterOf(absl::string_view mapping) {
  for (absl::string_view word : absl::StrSplit(mapping, ',')) {
    uint32_t blocks = 0;
    if (absl::ConsumePrefix(&word, "CLUSTER=") &&
        absl::SimpleAtoi(word, &blocks) && blocks > 1) {
      return blocks;
    }
  }
  return 0;
}

}  // namespace

std::vector<uint32_t> ClientNodesOf(const LoadedArtifact& artifact,
                                    int32_t step) {
  const wire::PlanStep& of = PlanOf(artifact).steps(step);
  const auto& nodes = of.has_launch() ? of.launch().client_nodes()
                                      : of.extern_call().client_nodes();
  return {nodes.begin(), nodes.end()};
}

absl::string_view StepLaunch::name() const {
  return KernelOf(artifact_, step_).label();
}

LaunchFacts StepLaunch::Facts() const {
  const wire::PlanKernel& kernel = KernelOf(artifact_, step_);
  LaunchFacts facts;
  facts.name = kernel.label();
  facts.symbol = kernel.symbol();
  facts.operators.assign(kernel.origins().begin(), kernel.origins().end());
  facts.client_nodes = ClientNodesOf(artifact_, step_);
  facts.stream = stream_;
  std::copy(std::begin(launch_.grid), std::end(launch_.grid), facts.grid);
  std::copy(std::begin(launch_.block), std::end(launch_.block), facts.block);
  facts.shared_bytes = launch_.shared_bytes;
  facts.cluster = std::max(launch_.cluster, ClusterOf(kernel.mapping()));
  for (const wire::KernelArg& arg : StepOf(artifact_, step_).args()) {
    facts.arguments.push_back(ArgumentOf(arg, symbols_));
  }
  facts.mapping = kernel.mapping();
  facts.extents = ValuesOf(kernel.extents(), symbols_);
  facts.bytes_read = ValueOf(kernel.bytes_read(), symbols_);
  facts.bytes_written = ValueOf(kernel.bytes_written(), symbols_);
  const auto& units = artifact_.view().message().compiled().units();
  if (static_cast<int>(kernel.module()) < units.size()) {
    facts.source = units[static_cast<int>(kernel.module())].source();
  }
  return facts;
}

}  // namespace kiln
