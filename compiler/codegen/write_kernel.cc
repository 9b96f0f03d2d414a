#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cpu_codegen.h"
#include "compiler/codegen/cuda_codegen.h"
#include "compiler/codegen/kernel_body.h"
#include "compiler/codegen/kernel_names.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/codegen/prelude.h"
#include "compiler/schedule/nest_facts.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Kernels in a unit: on average, and at most. Workers build units side by side,
// so small units end sooner; but a unit's floor is 16 ms for NVRTC, whose kernels
// take some 40 ms each, and 60 ms for g++, whose kernels take 20.
// A kernel whose text is long is a unit of its own, and the others of a unit have
// bounded texts: NVRTC takes some 30 ms for 1,000 bytes, and 240 ms for the longest
// kernel of GPT-2, for which its backward waits anyway.
struct UnitSize {
  uint32_t mean;
  size_t most;
  size_t alone;  // bytes of a kernel's text
  size_t texts;  // bytes, of all kernels' texts
};
constexpr UnitSize kNvrtcUnit = {
    .mean = 8, .most = 10, .alone = 4800, .texts = 8000};
constexpr UnitSize kHostUnit = {
    .mean = 6, .most = 12, .alone = SIZE_MAX, .texts = SIZE_MAX};

// The digest's last digits, as every symbol ends with them.
bool EndsUnit(const std::string& symbol, UnitSize size) {
  const std::string tail = symbol.substr(symbol.size() - 6);
  return std::strtoul(tail.c_str(), nullptr, 16) % size.mean == 0;
}

// Whether its unit needs the code that writes the message of an index out of bounds,
// for which NVRTC takes some 15 ms.
bool ChecksIndices(const KernelSource* kernel) {
  return absl::StrContains(kernel->text, "k_check_index(") ||
         absl::StrContains(kernel->text, "k_wrap_index(");
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

// Each once, by digest, so that neither the order nor the neighbours of a kernel
// in its graph decide where it goes.
std::vector<const KernelSource*> SortedByDigest(
    const std::vector<KernelSource>& kernels) {
  std::vector<const KernelSource*> sorted;
  for (const KernelSource& kernel : kernels) sorted.push_back(&kernel);
  const auto key = [](const KernelSource* k) {
    return SymbolDigest(k->symbol);
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
  return sorted;
}

}  // namespace

absl::StatusOr<KernelSource> WriteKernel(const PlannedKernel& kernel,
                                         const std::vector<Buffer>& buffers,
                                         const ShapeEnv& shapes,
                                         const Target& target) {
  ASSIGN_OR_RETURN(NestFacts facts, FactsOf(kernel.nest, buffers, shapes));
  KernelSource source;
  source.params = facts.params;
  source.waits_for_work_before = target.dependent_launch;
  if (target.kind == TargetKind::kCuda) {
    RETURN_IF_ERROR(WriteCudaKernel(kernel, buffers, shapes, target,
                                    std::move(facts), source));
    for (KernelParam& param : source.params) {
      if (param.kind == KernelParam::Kind::kSeed)
        param.kind = KernelParam::Kind::kSeedSlot;
    }
    if (kernel.workspace.partials != kNoBuffer) {
      using Kind = KernelParam::Kind;
      source.params.push_back({Kind::kBuffer, kernel.workspace.partials, 0});
      source.params.push_back({Kind::kBuffer, kernel.workspace.counters, 0});
    }
  } else {
    ASSIGN_OR_RETURN(source.text,
                     WriteCpuKernel(kernel, buffers, shapes, std::move(facts)));
  }
  source.symbol = KernelSymbol(kernel.label, source.text);
  source.text =
      absl::StrReplaceAll(source.text, {{kSymbolPlaceholder, source.symbol}});
  return source;
}

std::vector<UnitSource> GroupIntoUnits(const std::vector<KernelSource>& kernels,
                                       const Target& target) {
  const UnitSize size =
      target.kind == TargetKind::kCuda ? kNvrtcUnit : kHostUnit;
  const std::vector<const KernelSource*> sorted = SortedByDigest(kernels);
  std::vector<UnitSource> units;
  // Those that take longest first: a worker that begins with one ends in time.
  std::vector<const KernelSource*> shared;
  for (const KernelSource* kernel : sorted) {
    if (kernel->text.size() < size.alone) {
      shared.push_back(kernel);
    } else {
      units.push_back(MakeUnit({kernel}, target));
    }
  }
  if (target.kind == TargetKind::kCuda)
    std::stable_partition(shared.begin(), shared.end(), ChecksIndices);
  size_t first = 0, texts = 0;
  for (size_t i = 0; i < shared.size(); ++i) {
    texts += shared[i]->text.size();
    if (i + 1 < shared.size() && !EndsUnit(shared[i]->symbol, size) &&
        i - first + 1 < size.most &&
        texts + shared[i + 1]->text.size() <= size.texts)
      continue;
    units.push_back(
        MakeUnit(absl::MakeSpan(shared.data() + first, i + 1 - first), target));
    first = i + 1;
    texts = 0;
  }
  return units;
}

}  // namespace kiln
