#include "compiler/tune/tune_row.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/kernel_source.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int kRepeats = 21;
// Of a row that is kept in registers.
constexpr int64_t kMostHeldGroups = 16 * 128;

Buffer FlatBuffer(const char* name, BufferKind kind, DType dtype,
                  int64_t elements) {
  Buffer buffer;
  buffer.name = name;
  buffer.kind = kind;
  buffer.dtype = dtype;
  buffer.sizes.push_back(elements);
  buffer.strides.push_back(1);
  return buffer;
}

// Appends a node; gives its id.
ScalarId Add(LoopNest& nest, ScalarOp op, DType dtype,
             std::initializer_list<ScalarId> args) {
  ScalarNode& node = nest.body.emplace_back();
  node.op = op;
  node.dtype = dtype;
  for (ScalarId arg : args) node.args.push_back(arg);
  return static_cast<ScalarId>(nest.body.size() - 1);
}

absl::StatusOr<TimedKernel> BuildVariant(const RowQuestion& question,
                                         const RowChoice& choice,
                                         const Target& target,
                                         Toolchain& toolchain) {
  std::vector<Buffer> buffers;
  const PlannedKernel kernel = RowKernel(question, choice, target, buffers);
  ASSIGN_OR_RETURN(const KernelSource source,
                   WriteKernel(kernel, buffers, ShapeEnv(), target));
  const std::vector<UnitSource> units = GroupIntoUnits({source}, target);
  ASSIGN_OR_RETURN(BuiltObject built,
                   toolchain.Build(units[0].source, UnitFlags(target)));
  TimedKernel timed;
  timed.kind = target.kind;
  timed.target = target.name;
  timed.image = std::move(built.image);
  timed.symbol = source.symbol;
  const int64_t bytes =
      question.rows * question.columns * SizeInBytes(question.dtype);
  for (size_t i = 0; i < source.params.size(); ++i) {
    timed.buffer_bytes.push_back(bytes);
    timed.order.push_back(static_cast<int32_t>(i));
  }
  for (size_t d = 0; d < source.grid.size(); ++d)
    timed.grid[d] = source.grid[d].constant();
  std::copy(std::begin(source.block), std::end(source.block), timed.block);
  timed.shared_bytes = source.shared_bytes;
  return timed;
}

}  // namespace

PlannedKernel RowKernel(const RowQuestion& question, const RowChoice& choice,
                        const Target& target, std::vector<Buffer>& buffers) {
  const int64_t elements = question.rows * question.columns;
  buffers = {FlatBuffer("x", BufferKind::kInput, question.dtype, elements),
             FlatBuffer("y", BufferKind::kOutput, question.dtype, elements)};
  PlannedKernel kernel;
  LoopNest& nest = kernel.nest;
  nest.origins = {"tune_row"};
  nest.axes = {{question.rows, false}, {question.columns, true}};
  const SymExpr address =
      SymExpr::Axis(0) * question.columns + SymExpr::Axis(1);
  const DType compute =
      IsHalf(question.dtype) ? DType::kFloat32 : question.dtype;

  const ScalarId load = Add(nest, ScalarOp::kLoad, question.dtype, {});
  nest.body[load].buffer = 0;
  nest.body[load].index.push_back(address);
  const ScalarId x = Add(nest, ScalarOp::kCast, compute, {load});
  const ScalarId sum = Add(nest, ScalarOp::kReduce, compute, {x});
  nest.body[sum].reduce = ReduceOp::kSum;
  const ScalarId scaled = Add(nest, ScalarOp::kMul, compute, {x, sum});
  const ScalarId out = Add(nest, ScalarOp::kCast, question.dtype, {scaled});
  Store& store = nest.stores.emplace_back();
  store.buffer = 1;
  store.index.push_back(address);
  store.value = out;

  if (target.kind == TargetKind::kCpu) {
    kernel.variant = CpuRows{};
  } else {
    const auto widest = static_cast<int>(16 / SizeInBytes(question.dtype));
    CudaRows rows{.vector = question.columns % widest == 0 ? widest : 1,
                  .lanes = 32};
    const int64_t groups = question.columns / rows.vector;
    if (groups <= kMostHeldGroups)
      rows.held = static_cast<int>((groups + rows.lanes - 1) / rows.lanes);
    kernel.variant = rows;
  }
  Apply(choice, kernel.variant);
  return kernel;
}

absl::StatusOr<RowAnswer> TuneRow(const RowQuestion& question,
                                  const Target& target, Toolchain& toolchain,
                                  Stopwatch& stopwatch) {
  if (!IsFloat(question.dtype))
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat("tuning of row reductions of ",
                                  ShortName(question.dtype)));
  RowAnswer answer;
  answer.key = RowKey(question.dtype, question.rows, question.columns, target);
  const int repeats = question.repeats > 0 ? question.repeats : kRepeats;
  double best = 0;
  for (const RowChoice& choice : RowChoices(target)) {
    ASSIGN_OR_RETURN(const TimedKernel kernel,
                     BuildVariant(question, choice, target, toolchain));
    ASSIGN_OR_RETURN(const double seconds,
                     stopwatch.MedianSeconds(kernel, repeats));
    answer.choices.push_back(ToText(choice));
    answer.seconds.push_back(seconds);
    if (answer.seconds.size() == 1 || seconds < best) best = seconds;
  }
  for (size_t i = 0; i < answer.choices.size() && answer.choice.empty(); ++i)
    if (answer.seconds[i] <= best * kTuningTie)
      answer.choice = answer.choices[i];
  return answer;
}

}  // namespace kiln
