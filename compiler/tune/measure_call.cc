#include "compiler/tune/measure_call.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/choose_algorithm.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

std::vector<int64_t> HintsOf(const ShapeEnv& shapes, const DimVector& dims) {
  std::vector<int64_t> hints;
  for (const SymExpr& dim : dims) hints.push_back(shapes.Hint(dim));
  return hints;
}

std::vector<TimedCall::Operand> OperandsOf(const ShapeEnv& shapes,
                                           const std::vector<View>& views) {
  std::vector<TimedCall::Operand> operands;
  for (const View& view : views) {
    operands.push_back({view.dtype, HintsOf(shapes, view.sizes),
                        HintsOf(shapes, view.strides)});
  }
  return operands;
}

TimedCall::Attribute AtHints(const Attribute& attribute,
                             const ShapeEnv& shapes) {
  TimedCall::Attribute out{attribute.name, int64_t{0}};
  if (const auto* i = std::get_if<int64_t>(&attribute.value)) {
    out.value = *i;
  } else if (const auto* f = std::get_if<double>(&attribute.value)) {
    out.value = *f;
  } else if (const auto* s = std::get_if<std::string>(&attribute.value)) {
    out.value = *s;
  } else {
    const auto& ints = std::get<std::vector<SymExpr>>(attribute.value);
    out.value = HintsOf(shapes, DimVector(ints.begin(), ints.end()));
  }
  return out;
}

}  // namespace

const LibraryCall* CallOfKey(const KernelPlan& plan, const Target& target,
                             absl::string_view key) {
  for (const PlannedStep& step : plan.steps) {
    const auto* call = std::get_if<LibraryCall>(&step);
    if (call == nullptr || key.empty()) continue;
    if (TuningKey(*call, plan.buffers, plan.shapes, target) == key) return call;
  }
  return nullptr;
}

TimedCall TimedCallOf(const LibraryCall& call, const KernelPlan& plan,
                      const Target& target) {
  TimedCall timed;
  timed.kind = target.kind;
  timed.target = target.name;
  timed.name = call.name;
  timed.inputs = OperandsOf(plan.shapes, call.inputs);
  timed.outputs = OperandsOf(plan.shapes, call.outputs);
  for (const Attribute& attribute : call.attributes)
    timed.attributes.push_back(AtHints(attribute, plan.shapes));
  return timed;
}

absl::StatusOr<Measurement> MeasureCall(const LibraryCall& call,
                                        const KernelPlan& plan,
                                        const Target& target,
                                        absl::string_view key,
                                        const MeasureOptions& options,
                                        Stopwatch& stopwatch) {
  TimedCall timed = TimedCallOf(call, plan, target);
  std::vector<std::string> choices = options.choices;
  if (choices.empty()) {
    absl::StatusOr<std::vector<std::string>> named =
        stopwatch.Algorithms(timed, kMostAlgorithmsMeasured);
    if (!named.ok())
      return Annotate(named.status(), absl::StrCat("measure ", key));
    choices = *std::move(named);
  }
  if (choices.empty()) {
    return MakeError(
        ErrorReason::kUnsupportedOp,
        absl::StrCat(
            "measure ", key,
            ": the library lists no algorithm, expected at least one"));
  }
  timed.attributes.push_back({"algorithm", std::string()});
  return MeasureChoices(key, choices, [&](size_t i) {
    timed.attributes.back().value = choices[i];
    return stopwatch.MedianSeconds(
        timed, options.repeats > 0 ? options.repeats : kUsualRepeats);
  });
}

}  // namespace kiln
