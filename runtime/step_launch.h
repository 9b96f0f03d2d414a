#ifndef KILN_RUNTIME_STEP_LAUNCH_H_
#define KILN_RUNTIME_STEP_LAUNCH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/launch_hooks.h"
#include "runtime/loaded_artifact.h"

namespace kiln {

// Of the request's graph, the nodes that step number `step` of an artifact's plan
// does work of.
std::vector<uint32_t> ClientNodesOf(const LoadedArtifact& artifact,
                                    int32_t step);

// A launch that is step number `step` of an artifact's plan. What is known of it
// beside its arguments stands in the artifact, and is read when it is asked for.
class StepLaunch : public Launch {
 public:
  // `symbols`: the plan's, as the call has them. All that is named outlives this.
  StepLaunch(const LoadedArtifact& artifact, int32_t step,
             const KernelLaunch& launch, Stream stream,
             absl::Span<const int64_t> symbols)
      : artifact_(artifact),
        step_(step),
        launch_(launch),
        stream_(stream),
        symbols_(symbols) {}

  absl::string_view name() const override;
  LaunchFacts Facts() const override;

 private:
  const LoadedArtifact& artifact_;
  const int32_t step_;
  const KernelLaunch& launch_;
  const Stream stream_;
  const absl::Span<const int64_t> symbols_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_STEP_LAUNCH_H_
