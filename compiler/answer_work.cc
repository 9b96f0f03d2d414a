#include "compiler/answer_work.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compiler.h"
#include "compiler/config/target_from_wire.h"
#include "compiler/measure_graph.h"
#include "compiler/toolchain/object_symbols.h"
#include "proto/base/object_code.h"
#include "proto/base/refusal.h"
#include "proto/base/status.h"
#include "proto/base/work_error.h"

namespace kiln {
namespace {

void Describe(Toolchain& toolchain, wire::HelloReply& hello) {
  wire::Toolchain& out = *hello.add_toolchains();
  // The version first: before it is found, a compiler has no name.
  const absl::StatusOr<std::string> version = toolchain.Version();
  out.set_name(std::string(toolchain.name()));
  if (version.ok()) {
    out.set_version(*version);
    out.set_path(toolchain.path());
  } else {
    out.set_missing(std::string(version.status().message()));
  }
}

void SayHello(WorkBench& bench, wire::HelloReply& hello) {
  hello.set_build_identity(bench.build_identity);
  Describe(*bench.host, hello);
  Describe(*bench.nvrtc, hello);
}

absl::Status Plan(const wire::PlanRequest& request, wire::WorkReply& reply) {
  absl::StatusOr<CompiledGraph> planned = CompileGraph(request);
  if (!planned.ok())
    return NameOperators(planned.status(), request.compile().graph());
  CompiledGraph compiled = *std::move(planned);
  *reply.mutable_plan() = std::move(compiled.plan);
  for (const PassRecord& record : compiled.records) {
    wire::PassTiming& timing = *reply.add_timings();
    timing.set_pass(record.name);
    timing.set_microseconds(absl::ToInt64Microseconds(record.duration));
    timing.set_dump(record.dump);
  }
  return absl::OkStatus();
}

// What a toolchain made and a client would refuse.
absl::Status AsRejected(const absl::Status& status) {
  if (status.ok()) return status;
  return MakeError(ErrorReason::kToolchainRejected, status.message());
}

absl::Status Build(WorkBench& bench, const wire::BuildRequest& request,
                   wire::ObjectCode& object) {
  ASSIGN_OR_RETURN(const Target target, TargetFromWire(request.target()));
  const bool cuda = target.kind == TargetKind::kCuda;
  const wire::TranslationUnit& unit = request.unit();
  // Not a plan's to choose: they could name files, plugins and other programs.
  const std::vector<std::string> flags = UnitFlags(target);
  if (!std::equal(flags.begin(), flags.end(), unit.flags().begin(),
                  unit.flags().end())) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("unit: its flags are not those of ", target.name));
  }
  ASSIGN_OR_RETURN(
      BuiltObject built,
      (cuda ? bench.nvrtc : bench.host)->Build(unit.source(), flags));
  if (!cuda) RETURN_IF_ERROR(AsRejected(CheckSharedObject(built.image)));
  const std::vector<std::string> symbols(unit.symbols().begin(),
                                         unit.symbols().end());
  RETURN_IF_ERROR(CheckObjectSymbols(built.image, symbols));
  object.set_unit_digest(unit.digest());
  object.set_image(std::move(built.image));
  object.set_log(std::move(built.log));
  object.set_least_driver_cuda_version(built.least_driver_cuda_version);
  return absl::OkStatus();
}

Toolchain& ToolchainFor(WorkBench& bench, const wire::Target& target) {
  return target.has_cuda() ? *bench.nvrtc : *bench.host;
}

absl::Status Answer(WorkBench& bench, const wire::WorkRequest& request,
                    wire::WorkReply& reply) {
  switch (request.kind_case()) {
    case wire::WorkRequest::kHello:
      SayHello(bench, *reply.mutable_hello());
      return absl::OkStatus();
    case wire::WorkRequest::kPlan:
      return Plan(request.plan(), reply);
    case wire::WorkRequest::kBuild:
      return Build(bench, request.build(), *reply.mutable_build());
    case wire::WorkRequest::kMeasure: {
      const wire::Target& target = request.measure().compile().target();
      ASSIGN_OR_RETURN(
          *reply.mutable_measure(),
          MeasureGraph(request.measure(), ToolchainFor(bench, target),
                       *bench.stopwatch));
      return absl::OkStatus();
    }
    case wire::WorkRequest::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("work request: of no kind");
}

}  // namespace

wire::WorkReply AnswerWork(WorkBench& bench, const wire::WorkRequest& request) {
  wire::WorkReply reply;
  if (const absl::Status status = Answer(bench, request, reply); !status.ok()) {
    reply.Clear();
    *reply.mutable_error() = WorkErrorOf(status);
  }
  reply.set_id(request.id());
  return reply;
}

}  // namespace kiln
