#include "tests/support/nest_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/codegen/write_combined.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/choose_variant.h"
#include "compiler/schedule/column_sums.h"
#include "compiler/schedule/nest_price.h"
#include "compiler/schedule/one_pass_form.h"
#include "compiler/schedule/variant_candidates.h"
#include "tests/support/nest_batch.h"
#include "tests/support/nest_interpreter.h"

namespace kiln {
namespace {

// The CPU levels that this machine has.
std::vector<Target> CpuLevels() {
  std::vector<Target> levels = {*TargetFromName("x86-64")};
  if (__builtin_cpu_supports("avx2"))
    levels.push_back(*TargetFromName("x86-64-v3"));
  if (__builtin_cpu_supports("avx512bw"))
    levels.push_back(*TargetFromName("x86-64-v4"));
  return levels;
}

}  // namespace

uint32_t NestCase::Axis(SymExpr extent, bool reduction) {
  kernel.nest.axes.push_back({std::move(extent), reduction});
  return static_cast<uint32_t>(kernel.nest.axes.size() - 1);
}

SymExpr NestCase::Symbol(int64_t value) {
  SymbolFacts facts;
  facts.name = absl::StrCat("s", shapes.symbols.size());
  facts.hint = value;
  facts.range = {0, 1 << 20};
  shapes.symbols.push_back(facts);
  symbol_values_.push_back(value);
  return SymExpr::Symbol(static_cast<uint32_t>(symbol_values_.size() - 1));
}

BufferId NestCase::Buffer(BufferKind kind, DType dtype, DimVector sizes,
                          DimVector strides) {
  kiln::Buffer buffer;
  buffer.name = absl::StrCat("buf", buffers.size());
  buffer.kind = kind;
  buffer.dtype = dtype;
  if (strides.empty()) {
    strides.resize(sizes.size());
    SymExpr stride = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      strides[d] = stride;
      stride = stride * sizes[d];
    }
  }
  buffer.sizes = std::move(sizes);
  buffer.strides = std::move(strides);
  buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(buffers.size() - 1);
}

ScalarNode& NestCase::Add(ScalarOp op, DType dtype) {
  ScalarNode& node = kernel.nest.body.emplace_back();
  node.op = op;
  node.dtype = dtype;
  return node;
}

ScalarId NestCase::Last() const {
  return static_cast<ScalarId>(kernel.nest.body.size() - 1);
}

ScalarId NestCase::Load(BufferId buffer, DimVector index) {
  ScalarNode& node = Add(ScalarOp::kLoad, buffers[buffer].dtype);
  node.buffer = buffer;
  node.index = std::move(index);
  return Last();
}

ScalarId NestCase::MaskedLoad(BufferId buffer, DimVector index, ScalarId mask,
                              double other) {
  const ScalarId id = Load(buffer, std::move(index));
  ScalarNode& node = kernel.nest.body[id];
  node.args = {mask};
  if (IsFloat(node.dtype)) {
    node.number.f = other;
  } else {
    node.number.i = static_cast<int64_t>(other);
  }
  return id;
}

ScalarId NestCase::Constant(DType dtype, double value) {
  ScalarNode& node = Add(ScalarOp::kConstant, dtype);
  if (IsFloat(dtype)) {
    node.number.f = value;
  } else {
    node.number.i = static_cast<int64_t>(value);
  }
  return Last();
}

ScalarId NestCase::Index(SymExpr index) {
  ScalarNode& node = Add(ScalarOp::kIndex, DType::kInt64);
  node.index = {std::move(index)};
  return Last();
}

ScalarId NestCase::Op(ScalarOp op, std::vector<ScalarId> args) {
  const auto& body = kernel.nest.body;
  DType dtype = body[args[op == ScalarOp::kWhere ? 1 : 0]].dtype;
  switch (op) {
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kGt:
    case ScalarOp::kGe:
    case ScalarOp::kIsNan:
    case ScalarOp::kIsInf:
    case ScalarOp::kSignBit:
      dtype = DType::kBool;
      break;
    default:
      break;
  }
  ScalarNode& node = Add(op, dtype);
  node.args.assign(args.begin(), args.end());
  return Last();
}

ScalarId NestCase::Cast(DType dtype, ScalarId value) {
  ScalarNode& node = Add(ScalarOp::kCast, dtype);
  node.args = {value};
  return Last();
}

ScalarId NestCase::Random(int64_t number, ScalarId index) {
  Add(ScalarOp::kSeed, DType::kInt64);
  const ScalarId seed = Last();
  ScalarNode& node = Add(ScalarOp::kRandom, DType::kFloat32);
  node.number.i = number;
  node.args = {seed, index};
  return Last();
}

ScalarId NestCase::Reduce(ReduceOp reduce, ScalarId value) {
  ScalarNode& node = Add(ScalarOp::kReduce, kernel.nest.body[value].dtype);
  node.reduce = reduce;
  node.args = {value};
  return Last();
}

ScalarId NestCase::Second(ScalarId reduce) {
  ScalarNode& node = Add(ScalarOp::kReduceResult, DType::kInt64);
  node.number.i = 1;
  node.args = {reduce};
  return Last();
}

ScalarId NestCase::Scan(ReduceOp reduce, ScalarId value) {
  const ScalarId id = Reduce(reduce, value);
  kernel.nest.body[id].op = ScalarOp::kScan;
  return id;
}

ScalarId NestCase::Sort(ReduceOp order, ScalarId value, int64_t places) {
  ScalarNode& node = Add(ScalarOp::kSort, DType::kInt64);
  node.reduce = order;
  node.number.i = places;
  node.args = {value};
  return Last();
}

ScalarId NestCase::Tally(ScalarId value, int64_t values) {
  ScalarNode& node = Add(ScalarOp::kTally, DType::kInt32);
  node.number.i = values;
  node.args = {value};
  return Last();
}

void NestCase::Store(BufferId buffer, DimVector index, ScalarId value,
                     StoreMode mode, ScalarId mask) {
  kernel.nest.stores.push_back({buffer, std::move(index), value, mode, mask});
}

void NestCase::Sum(BufferId buffer, SymExpr column, ScalarId value,
                   int64_t stretch) {
  SymExpr row = 0;
  for (size_t a = 0; a < kernel.nest.axes.size(); ++a) {
    const kiln::Axis& axis = kernel.nest.axes[a];
    if (!axis.reduction)
      row = row * axis.extent + SymExpr::Axis(static_cast<uint32_t>(a));
  }
  kernel.nest.stores.push_back({.buffer = buffer,
                                .index = {FloorDiv(row, stretch), column},
                                .value = value,
                                .mode = StoreMode::kSum,
                                .stretch = stretch});
}

int64_t NestCase::Value(const SymExpr& e) const {
  return e.Evaluate([&](Var var) { return symbol_values_[var.index]; });
}

int64_t NestCase::Elements(const kiln::Buffer& buffer) const {
  int64_t last = Value(buffer.offset);
  for (size_t d = 0; d < buffer.sizes.size(); ++d) {
    if (Value(buffer.sizes[d]) == 0) return 0;
    last += (Value(buffer.sizes[d]) - 1) * Value(buffer.strides[d]);
  }
  return last + 1;
}

std::vector<std::vector<char>> NestCase::FilledMemory(
    const std::vector<int64_t>& counts) const {
  std::vector<std::vector<char>> memory;
  uint64_t state = 88172645463325252ull;
  for (size_t b = 0; b < buffers.size(); ++b) {
    const DType dtype = buffers[b].dtype;
    memory.emplace_back(counts[b] * SizeInBytes(dtype) + 64);
    for (int64_t e = 0; e < counts[b]; ++e) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      AnyScalar v;
      v.f = static_cast<double>(state % 8192) / 1024 - 4;
      if (special_floats && (state >> 16) % 8 == 0) {
        static constexpr double kSpecial[] = {
            std::numeric_limits<double>::quiet_NaN(),
            std::numeric_limits<double>::infinity(), 0};
        v.f = std::copysign(kSpecial[(state >> 24) % 3],
                            (state >> 32) % 2 == 0 ? 1.0 : -1.0);
      }
      v.i = static_cast<int64_t>(state % integer_limit);
      if (dtype == DType::kBool) v.i = state & 1;
      if (buffers[b].kind == BufferKind::kOutput ||
          buffers[b].kind == BufferKind::kCounters) {
        v = {};
      }
      WriteElement(dtype, memory.back().data(), e, v);
    }
  }
  return memory;
}

void NestCase::EndPart() { parts.push_back(std::exchange(kernel, {})); }

absl::StatusOr<KernelSource> NestCase::Source(const Target& target) const {
  const auto on_target = [&](PlannedKernel of) {
    if (target.kind == TargetKind::kCpu &&
        std::holds_alternative<CudaPoints>(of.variant)) {
      of.variant = CpuPoints{};
    }
    if (std::holds_alternative<Unmapped>(of.variant)) {
      const auto choice =
          ChooseVariant(of.nest, buffers, shapes, target, ChoiceOptions());
      if (choice.ok()) {
        of.variant = choice->config.variant;
        if (choice->config.one_pass) of.nest = OnePassForm(of.nest).value();
      }
    }
    return of;
  };
  if (parts.empty()) {
    PlannedKernel alone = on_target(kernel);
    alone.label = "kiln_alone_0";
    return WriteKernel(alone, buffers, shapes, target);
  }
  CombinedKernel combined{{}, "kiln_combined_0"};
  for (const PlannedKernel& part : parts)
    combined.parts.push_back(on_target(part));
  return WriteCombinedKernel(combined, buffers, shapes, target);
}

namespace {

// What a variant does, without how much of it.
std::string FeaturesOf(const KernelVariant& variant) {
  std::string features(VariantName(variant));
  KernelVariant copy = variant;
  for (const VariantField& field : FieldsOf(copy)) {
    const int v = *field.value;
    const bool lanes = field.name == "lanes" || field.name == "down";
    const bool counted = field.name == "rows" || field.name == "threads" ||
                         field.name == "across" || field.name == "strip";
    const auto* in_rows = std::get_if<CudaRows>(&variant);
    const bool stretches = in_rows != nullptr && in_rows->stretch > 0;
    if (counted && !stretches) continue;
    absl::StrAppend(&features, " ", field.name, " ",
                    field.name == "vector" ? v
                    : lanes                ? (v > 32) + (v > 1)
                                           : (v > 0) + (v > 1));
  }
  return features;
}

}  // namespace

constexpr int64_t kLongestSerial = 4096;

std::vector<KernelVariant> NestCase::Candidates(const Target& target) const {
  const auto facts = FactsOf(kernel.nest, buffers, shapes);
  EXPECT_TRUE(facts.ok()) << facts.status();
  if (!facts.ok()) return {};
  const NestCosts costs(kernel.nest, *facts, buffers, shapes, target);
  std::vector<KernelVariant> all = CandidatesFor(costs, {});
  const bool cuda = target.kind == TargetKind::kCuda;
  if (cuda && facts->reduced != 0 &&
      costs.OnlyReduction(ScalarOp::kSort) == nullptr &&
      costs.OnlyReduction(ScalarOp::kTally) == nullptr &&
      StretchOf(kernel.nest) == 0) {
    // A thread that adds for too long loses digits; no such kernel is chosen.
    if (facts->has_scan || costs.reduced() <= kLongestSerial)
      all.push_back(CudaSerial{.threads = 64});
    for (KernelVariant variant : CandidatesFor(costs, {})) {
      auto* scans = std::get_if<CudaScans>(&variant);
      auto* columns = std::get_if<CudaColumnScans>(&variant);
      if (columns != nullptr) columns->parts = 3;
      if (scans != nullptr && scans->lanes >= 128) scans->parts = 3;
      if (PartsOf(variant) == 3) all.push_back(variant);
    }
    if (costs.MaySplit()) {
      for (KernelVariant variant : CandidatesFor(costs, {})) {
        auto* rows = std::get_if<CudaRows>(&variant);
        if (rows != nullptr && rows->held == 0) {
          rows->parts = 3;
          all.push_back(variant);
        }
        if (auto* columns = std::get_if<CudaColumns>(&variant)) {
          columns->parts = 3;
          all.push_back(variant);
        }
      }
    }
  }
  std::vector<KernelVariant> fitting;
  for (KernelVariant& variant : all)
    if (costs.PriceOf(variant).fits) fitting.push_back(std::move(variant));
  return fitting;
}

std::vector<KernelVariant> NestCase::Variants(const Target& target) const {
  std::vector<KernelVariant> chosen;
  std::vector<std::string> seen;
  for (KernelVariant& variant : Candidates(target)) {
    std::string features = FeaturesOf(variant);
    if (std::find(seen.begin(), seen.end(), features) != seen.end()) continue;
    seen.push_back(std::move(features));
    chosen.push_back(std::move(variant));
  }
  return chosen;
}

// What the parts of a combined kernel are checked as: they have their variants.
void NestCase::CheckOnCpu(double tolerance) {
  for (const Target& level : CpuLevels())
    CheckTogether({{*this, level.name, tolerance}}, level);
}

void NestCase::CheckOnCuda(double tolerance) {
  CheckTogether({{*this, "sm_90", tolerance}}, *TargetFromName("sm_90"));
}

void NestCase::CheckVariants(TargetKind kind, double tolerance) {
  *this = Flat();
  if (kind == TargetKind::kCpu) {
    // The variants of all levels are those of one.
    for (const Target& level : CpuLevels())
      CheckTogether(Mapped(*TargetFromName("x86-64-v3"), tolerance), level);
    return;
  }
  const Target target = *TargetFromName("sm_90");
  std::vector<MappedNest> nests = Mapped(target, tolerance);
  std::optional<LoopNest> form = OnePassForm(kernel.nest);
  if (form.has_value()) {
    NestCase one_pass = *this;
    one_pass.kernel.nest = *std::move(form);
    for (MappedNest& nest : one_pass.Mapped(target, tolerance))
      nests.push_back(std::move(nest));
  }
  CheckTogether(nests, target);
}

NestCase NestCase::Flat() const {
  NestCase flat = *this;
  FlattenAddresses(flat.kernel.nest, buffers);
  for (kiln::Buffer& buffer : flat.buffers) buffer = FlatBuffer(buffer);
  return flat;
}

std::vector<MappedNest> NestCase::Mapped(const Target& target,
                                         double tolerance) {
  trial_ = std::make_shared<Trial>(Interpret());
  std::vector<MappedNest> nests;
  for (const KernelVariant& variant : Variants(target))
    nests.push_back({With(variant), ToText(variant), tolerance});
  EXPECT_FALSE(nests.empty()) << "no variant fits";
  return nests;
}

NestCase NestCase::With(const KernelVariant& variant) const {
  KernelPlan plan;
  plan.buffers = buffers;
  plan.placements.resize(buffers.size());
  plan.steps.push_back(kernel);
  std::get<PlannedKernel>(plan.steps[0]).variant = variant;
  AddWorkspaces(plan);
  NestCase mapped = *this;
  mapped.kernel = std::get<PlannedKernel>(std::move(plan.steps[0]));
  mapped.buffers = std::move(plan.buffers);
  return mapped;
}

NestCase::Trial NestCase::Interpret() const {
  Trial trial;
  for (const kiln::Buffer& buffer : buffers)
    trial.counts.push_back(Elements(buffer));
  if (trial_ != nullptr) {
    // Workspaces, which come last, are no results.
    trial.expected = FilledMemory(trial.counts);
    std::copy(trial_->expected.begin(), trial_->expected.end(),
              trial.expected.begin());
    trial.inside = trial_->inside;
    return trial;
  }
  NestRun run{.symbols = symbol_values_, .seed = kSeed};
  trial.expected = FilledMemory(trial.counts);
  for (auto& bytes : trial.expected) run.memory.push_back(bytes.data());
  for (const PlannedKernel& part : parts)
    trial.inside &= InterpretNest(part.nest, buffers, run);
  if (parts.empty()) trial.inside = InterpretNest(kernel.nest, buffers, run);
  return trial;
}

void NestCase::Compare(const Trial& trial,
                       const std::vector<std::vector<char>>& found,
                       const std::string& where, double tolerance) const {
  int wrong = 0;
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (b == kernel.workspace.partials) continue;
    const DType dtype = buffers[b].dtype;
    for (int64_t e = 0; e < trial.counts[b] && wrong < 5; ++e) {
      const AnyScalar x = ReadElement(dtype, found[b].data(), e);
      const AnyScalar y = ReadElement(dtype, trial.expected[b].data(), e);
      const bool same = !IsFloat(dtype) ? x.i == y.i
                        : std::isnan(y.f) || std::isinf(y.f)
                            ? x.f == y.f || std::isnan(x.f) == std::isnan(y.f)
                            : std::fabs(x.f - y.f) <=
                                  tolerance * std::max(1.0, std::fabs(y.f));
      if (same) continue;
      ++wrong;
      ADD_FAILURE() << where << ": " << buffers[b].name << "[" << e
                    << "]: found " << (IsFloat(dtype) ? x.f : x.i) << ", due "
                    << (IsFloat(dtype) ? y.f : y.i);
    }
  }
}

}  // namespace kiln
