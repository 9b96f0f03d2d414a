#include "compiler/codegen/write_kernels.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "compiler/codegen/write_combined.h"
#include "compiler/schedule/kernel_fingerprint.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

struct Written {
  KernelSource source;
  std::vector<BufferId> buffers;  // in the fingerprint's order
};

// `written.source` with the buffers and random streams of an equal kernel. A
// scalar argument that is a number is a stream (nest_facts.cc); the others are
// symbols.
KernelSource WithArguments(const Written& written,
                           const KernelFingerprint& kernel) {
  KernelSource source = written.source;
  size_t next_stream = 0;
  for (KernelParam& param : source.params) {
    if (param.kind == KernelParam::Kind::kScalar &&
        param.scalar.is_constant() && next_stream < kernel.streams().size()) {
      param.scalar = kernel.streams()[next_stream++];
    }
    if (param.kind != KernelParam::Kind::kBuffer) continue;
    for (size_t i = 0; i < written.buffers.size(); ++i) {
      if (written.buffers[i] == param.buffer) {
        param.buffer = kernel.buffers()[i];
        break;
      }
    }
  }
  return source;
}

}  // namespace

absl::StatusOr<std::vector<KernelSource>> WriteKernels(const KernelPlan& plan,
                                                       const Target& target) {
  std::vector<KernelSource> sources;
  absl::flat_hash_map<std::string, Written> written;
  for (const PlannedStep& step : plan.steps) {
    if (const auto* all = std::get_if<CombinedKernel>(&step)) {
      absl::StatusOr<KernelSource> source =
          WriteCombinedKernel(*all, plan.buffers, plan.shapes, target);
      if (!source.ok()) return Annotate(source.status(), all->label);
      sources.push_back(*std::move(source));
      continue;
    }
    const auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr) continue;
    KernelFingerprint fingerprint(*kernel, plan.buffers,
                                  FingerprintSizes::kKept);
    auto at = written.find(fingerprint.bytes());
    if (at == written.end()) {
      absl::StatusOr<KernelSource> source =
          WriteKernel(*kernel, plan.buffers, plan.shapes, target);
      if (!source.ok()) return Annotate(source.status(), kernel->label);
      at = written
               .emplace(fingerprint.bytes(),
                        Written{*std::move(source), fingerprint.buffers()})
               .first;
    }
    sources.push_back(WithArguments(at->second, fingerprint));
  }
  return sources;
}

}  // namespace kiln
