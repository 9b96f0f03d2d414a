#include "compiler/emit/build_compile_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/emit/sym_to_wire.h"
#include "compiler/schedule/metrics.h"
#include "proto/base/assemble.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

void AddCounter(wire::CompilePlan& out, absl::string_view name, int64_t value) {
  wire::Counter& counter = *out.add_counters();
  counter.set_name(std::string(name));
  counter.set_value(value);
}

// In order of name.
void AddCounters(const KernelPlan& plan, wire::CompilePlan& out) {
  const LaunchCounts counts = CountLaunches(plan);
  for (const absl::string_view op : {"addmm", "bmm", "mm"}) {
    AddCounter(
        out, absl::StrCat("decompose_", op),
        std::count(plan.tiny_products.begin(), plan.tiny_products.end(), op));
  }
  AddCounter(out, "extern_call_count", counts.externs);
  AddCounter(out, "generated_kernel_count", out.plan().kernels_size());
  AddCounter(out, "launch_count", counts.launches());
  AddCounter(out, "num_bytes_accessed", counts.bytes);
}

void AddConstants(const Graph& graph, wire::CompilePlan& out) {
  for (const GraphConstant& constant : graph.constants) {
    const TensorMeta& meta = graph.meta(constant.value);
    wire::Constant& to = *out.add_constants();
    to.mutable_tensor()->set_dtype(ToWire(meta.dtype));
    for (const SymExpr& size : meta.sizes)
      *to.mutable_tensor()->add_sizes() = ToWire(size);
    for (const SymExpr& stride : meta.strides)
      *to.mutable_tensor()->add_strides() = ToWire(stride);
    to.set_data(constant.data);
  }
}

}  // namespace

absl::StatusOr<wire::CompilePlan> BuildCompilePlan(
    const Graph& graph, const KernelPlan& plan,
    absl::Span<const EmittedKernel> kernels, absl::Span<const UnitSource> units,
    const Target& target, absl::Span<const std::string> flags) {
  wire::CompilePlan out;
  ASSIGN_OR_RETURN(*out.mutable_plan(),
                   BuildLaunchPlan(graph, plan, kernels, units));
  for (const UnitSource& unit : units) {
    wire::TranslationUnit& to = *out.add_units();
    to.set_language(target.kind == TargetKind::kCuda
                        ? wire::TranslationUnit::LANGUAGE_CUDA
                        : wire::TranslationUnit::LANGUAGE_CPP);
    to.set_source(unit.source);
    for (const std::string& flag : flags) to.add_flags(flag);
    for (const std::string& symbol : unit.symbols) to.add_symbols(symbol);
    to.set_digest(UnitDigest(to).ToBytes());
  }
  for (const Guard& guard : plan.shapes.guards())
    *out.mutable_guards()->add_symbols() = ToWire(guard);
  AddCounters(plan, out);
  AddConstants(graph, out);
  for (const auto& [key, choice] : plan.tuned)
    out.add_tuned(absl::StrCat(key, " ", choice));
  for (const std::string& line : plan.contractions) out.add_contractions(line);
  return out;
}

void AddPassCounters(absl::Span<const PassRecord> records,
                     wire::CompilePlan& plan) {
  // Two digits keep the order of running.
  int64_t patterns = 0, scatters = 0, folded = 0, in_place = 0, rows = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    AddCounter(
        plan,
        absl::StrFormat("pass_%02d_%s", static_cast<int>(i), records[i].name),
        records[i].left);
    const std::string& name = records[i].name;
    // Of memory, and no patterns of operators.
    if (name == "pad_in_place") {
      in_place += records[i].patterns;
    } else if (name == "make_room_for_pads" || name == "align_contractions") {
      rows += records[i].patterns;
    } else {
      patterns += records[i].patterns;
    }
    if (name == "scatter_upon_const") scatters += records[i].patterns;
    if (name == "fold_into_convolutions") folded += records[i].patterns;
  }
  AddCounter(plan, "binary_folding", folded);
  AddCounter(plan, "inplace_padding", in_place);
  AddCounter(plan, "num_comprehensive_padding", rows);
  AddCounter(plan, "pattern_matches", patterns);
  AddCounter(plan, "scatter_upon_const_tensor", scatters);
  std::sort(plan.mutable_counters()->begin(), plan.mutable_counters()->end(),
            [](const wire::Counter& a, const wire::Counter& b) {
              return a.name() < b.name();
            });
}

}  // namespace kiln
