#include "compiler/tune/tuning_from_wire.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/config/target_from_wire.h"
#include "compiler/tune/tune_row.h"
#include "proto/base/dtype.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int kDefaultRepeats = 21;
// Of a block. Source: CUDA C++ Programming Guide, "Compute Capabilities".
constexpr uint32_t kMostThreads = 1024;

absl::Status BadMeasure(absl::string_view what) {
  return MakeError(ErrorReason::kBadOption, absl::StrCat("measure: ", what));
}

absl::StatusOr<int64_t> Constant(const wire::SymExpr& e) {
  if (e.code_size() > 0) return BadMeasure("a number holds symbols");
  return e.value();
}

// A launch as the stopwatch takes it, but for the object code.
absl::StatusOr<TimedKernel> LaunchOf(const wire::MeasureRequest& request,
                                     int variant) {
  const wire::LaunchStep& launch = request.launches(variant);
  const wire::TranslationUnit& unit = request.variants(variant);
  if (launch.kernel() >= static_cast<uint32_t>(unit.symbols_size()))
    return BadMeasure(
        absl::StrCat("variant ", variant, " has no kernel ", launch.kernel()));
  TimedKernel timed;
  timed.symbol = unit.symbols(static_cast<int>(launch.kernel()));
  for (const wire::KernelArg& arg : launch.args()) {
    if (arg.has_buffer()) {
      if (arg.buffer().buffer() >=
          static_cast<uint32_t>(request.buffer_bytes_size()))
        return BadMeasure(
            absl::StrCat("no size of buffer ", arg.buffer().buffer()));
      timed.order.push_back(static_cast<int32_t>(timed.buffer_bytes.size()));
      timed.buffer_bytes.push_back(static_cast<int64_t>(
          request.buffer_bytes(static_cast<int>(arg.buffer().buffer()))));
      continue;
    }
    int64_t value = 0;
    if (arg.has_scalar()) {
      ASSIGN_OR_RETURN(value, Constant(arg.scalar()));
    }
    timed.order.push_back(~static_cast<int32_t>(timed.scalars.size()));
    timed.scalars.push_back(value);
  }
  for (int d = 0; d < std::min(3, launch.grid_size()); ++d) {
    ASSIGN_OR_RETURN(timed.grid[d], Constant(launch.grid(d)));
  }
  for (int d = 0; d < std::min(3, launch.block_size()); ++d)
    timed.block[d] = launch.block(d);
  const int64_t threads =
      int64_t{timed.block[0]} * timed.block[1] * timed.block[2];
  if (*std::max_element(timed.block, timed.block + 3) > kMostThreads ||
      threads < 1 || threads > kMostThreads) {
    return BadMeasure(absl::StrCat("variant ", variant, ": blocks of ",
                                   timed.block[0], " x ", timed.block[1], " x ",
                                   timed.block[2], " threads, 1 to ",
                                   kMostThreads, " in all are due"));
  }
  timed.shared_bytes = launch.shared_bytes();
  return timed;
}

}  // namespace

std::vector<TunedChoice> TunedChoicesOf(const wire::PlanRequest& request) {
  std::vector<TunedChoice> choices;
  for (const wire::TuningDecision& decision : request.tuning())
    choices.push_back({decision.key(), decision.choice()});
  return choices;
}

absl::StatusOr<wire::TuningDecision> AnswerTuneRow(
    const wire::TuneRowRequest& request, Toolchain& toolchain,
    Stopwatch& stopwatch) {
  ASSIGN_OR_RETURN(const Target target, TargetFromWire(request.target()));
  const auto dtype = DTypeFromWire(request.dtype());
  if (!dtype.has_value() || request.rows() < 1 || request.columns() < 1)
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("tuning of ", request.rows(), " rows of ",
                                  request.columns(),
                                  ": sizes of 1 or more and a dtype that is "
                                  "computed with are due"));
  ASSIGN_OR_RETURN(RowAnswer answer,
                   TuneRow({.rows = request.rows(),
                            .columns = request.columns(),
                            .dtype = *dtype,
                            .repeats = static_cast<int>(request.repeats())},
                           target, toolchain, stopwatch));
  wire::TuningDecision decision;
  decision.set_key(answer.key);
  decision.set_choice(answer.choice);
  for (double seconds : answer.seconds) decision.add_seconds(seconds);
  for (std::string& choice : answer.choices)
    decision.add_choices(std::move(choice));
  return decision;
}

absl::StatusOr<wire::TuningDecision> AnswerMeasure(
    const wire::MeasureRequest& request, Toolchain& toolchain,
    Stopwatch& stopwatch) {
  ASSIGN_OR_RETURN(const Target target, TargetFromWire(request.target()));
  const int count = request.variants_size();
  if (count == 0 || request.launches_size() != count ||
      request.choices_size() != count)
    return BadMeasure(absl::StrCat(count, " variants, ",
                                   request.launches_size(), " launches, ",
                                   request.choices_size(), " choices"));
  const int repeats = request.repeats() > 0
                          ? static_cast<int>(request.repeats())
                          : kDefaultRepeats;
  wire::TuningDecision decision;
  decision.set_key(request.key());
  *decision.mutable_choices() = request.choices();
  double best = 0;
  for (int v = 0; v < count; ++v) {
    ASSIGN_OR_RETURN(TimedKernel kernel, LaunchOf(request, v));
    kernel.target = target.name;
    kernel.kind = target.kind;
    const auto& flags = request.variants(v).flags();
    ASSIGN_OR_RETURN(
        BuiltObject built,
        toolchain.Build(request.variants(v).source(),
                        std::vector<std::string>(flags.begin(), flags.end())));
    kernel.image = std::move(built.image);
    ASSIGN_OR_RETURN(const double seconds,
                     stopwatch.MedianSeconds(kernel, repeats));
    decision.add_seconds(seconds);
    if (v == 0 || seconds < best) best = seconds;
  }
  for (int v = 0; v < count && decision.choice().empty(); ++v)
    if (decision.seconds(v) <= best * kTuningTie)
      decision.set_choice(request.choices(v));
  return decision;
}

}  // namespace kiln
