#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cpu_codegen.h"
#include "compiler/codegen/cuda_codegen.h"
#include "compiler/codegen/kernel_body.h"
#include "compiler/codegen/kernel_names.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/codegen/nest_facts.h"
#include "compiler/codegen/prelude.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Kernels in a unit: on average, and at most. Workers build units side by side,
// so small units end sooner; but a unit's floor is 16 ms for NVRTC, whose kernels
// take some 40 ms each, and 60 ms for g++, whose kernels take 20.
struct UnitSize {
  uint32_t mean;
  size_t most;
};
constexpr UnitSize kNvrtcUnit = {.mean = 2, .most = 4};
constexpr UnitSize kHostUnit = {.mean = 6, .most = 12};

// The digest's last digits, as every symbol ends with them.
bool EndsUnit(const std::string& symbol, UnitSize size) {
  const std::string tail = symbol.substr(symbol.size() - 6);
  return std::strtoul(tail.c_str(), nullptr, 16) % size.mean == 0;
}

UnitSource MakeUnit(absl::Span<const KernelSource* const> kernels,
                    const Target& target) {
  UnitSource unit;
  std::string body;
  for (const KernelSource* kernel : kernels) {
    absl::StrAppend(&body, "\n", kernel->text);
    unit.symbols.push_back(kernel->symbol);
  }
  if (target.kind == TargetKind::kCuda) {
    unit.source = PreludeFor(body, CudaPrelude(), {}) + body;
  } else {
    const std::pair<absl::string_view, std::string> lanes[] = {
        {"$L", absl::StrCat(target.vector_bytes / 4)}};
    unit.source = PreludeFor(body, CpuPrelude(), lanes) + body;
  }
  return unit;
}

}  // namespace

absl::StatusOr<KernelSource> WriteKernel(const PlannedKernel& kernel,
                                         const std::vector<Buffer>& buffers,
                                         const ShapeEnv& shapes,
                                         const Target& target) {
  ASSIGN_OR_RETURN(NestFacts facts, FactsOf(kernel.nest, buffers, shapes));
  KernelSource source;
  source.params = facts.params;
  if (target.kind == TargetKind::kCuda) {
    RETURN_IF_ERROR(WriteCudaKernel(kernel, buffers, shapes, target,
                                    std::move(facts), source));
  } else {
    ASSIGN_OR_RETURN(source.text,
                     WriteCpuKernel(kernel, buffers, shapes, std::move(facts)));
  }
  source.symbol = KernelSymbol(kernel, source.text);
  source.text =
      absl::StrReplaceAll(source.text, {{kSymbolPlaceholder, source.symbol}});
  return source;
}

std::vector<UnitSource> GroupIntoUnits(const std::vector<KernelSource>& kernels,
                                       const Target& target) {
  // By digest, so that neither the order nor the neighbours of a kernel in its
  // graph decide where it goes.
  std::vector<const KernelSource*> sorted;
  for (const KernelSource& kernel : kernels) sorted.push_back(&kernel);
  const auto key = [](const KernelSource* k) {
    return absl::string_view(k->symbol).substr(k->symbol.size() - 12);
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const KernelSource* a, const KernelSource* b) {
              return key(a) != key(b) ? key(a) < key(b) : a->symbol < b->symbol;
            });
  sorted.erase(std::unique(sorted.begin(), sorted.end(),
                           [](const KernelSource* a, const KernelSource* b) {
                             return a->symbol == b->symbol;
                           }),
               sorted.end());
  const UnitSize size =
      target.kind == TargetKind::kCuda ? kNvrtcUnit : kHostUnit;
  std::vector<UnitSource> units;
  size_t first = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const bool last = i + 1 == sorted.size();
    if (!last && !EndsUnit(sorted[i]->symbol, size) &&
        i - first + 1 < size.most)
      continue;
    units.push_back(
        MakeUnit(absl::MakeSpan(sorted.data() + first, i + 1 - first), target));
    first = i + 1;
  }
  return units;
}

}  // namespace kiln
