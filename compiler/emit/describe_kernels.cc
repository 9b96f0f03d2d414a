#include "compiler/emit/describe_kernels.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/metrics.h"

namespace kiln {

std::vector<EmittedKernel> DescribeKernels(const KernelPlan& plan,
                                           std::vector<KernelSource> sources) {
  std::vector<EmittedKernel> out;
  out.reserve(sources.size());
  absl::flat_hash_set<std::string> seen;
  size_t next = 0;
  for (const PlannedStep& step : plan.steps) {
    const auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr || next >= sources.size()) continue;
    EmittedKernel emitted;
    emitted.source = std::move(sources[next++]);
    const KernelBytes bytes = BytesOf(kernel->nest, plan.buffers);
    emitted.facts.bytes_read = bytes.read;
    emitted.facts.bytes_written = bytes.written;
    if (seen.insert(emitted.source.symbol).second) {
      emitted.facts.text = ToText(*kernel, plan.buffers);
    }
    out.push_back(std::move(emitted));
  }
  return out;
}

}  // namespace kiln
