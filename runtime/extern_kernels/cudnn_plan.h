#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUDNN_PLAN_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUDNN_PLAN_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/extern_kernels/cudnn.h"
#include "runtime/extern_kernels/cudnn_backend.h"

namespace kiln {

// What cuDNN says of an engine's numbers (cudnnBackendNumericalNote_t), as
// bits.
inline constexpr uint32_t kCudnnTensorCores = 1u << 0;
inline constexpr uint32_t kCudnnRoundsOperands = 1u << 1;
inline constexpr uint32_t kCudnnReducedSums = 1u << 2;
inline constexpr uint32_t kCudnnFft = 1u << 3;
inline constexpr uint32_t kCudnnNondeterministic = 1u << 4;
inline constexpr uint32_t kCudnnWinograd =
    1u << 5 | 1u << 6 | 1u << 7 | 1u << 8;

// Which engines may compute a graph.
struct CudnnEngineRules {
  uint32_t refused_numbers = 0;  // of the bits above
  bool compiled_at_run_time = true;
  int64_t most_workspace_bytes = std::numeric_limits<int64_t>::max();
  // Taken before all others, if it is within the rules: one of CudnnPlan::Engines.
  std::string named;
};

// Where a tensor of a graph lies.
struct CudnnBinding {
  int64_t id;
  void* address;
};

// A number that a graph has by value.
struct CudnnScalar {
  int64_t id;
  float value;
};

// A graph with the engine that computes it. Immutable: Run may be called by
// many threads, each with a handle of its own.
class CudnnPlan {
 public:
  CudnnPlan() = default;

  // Takes the engine that the rules name, or, with a word in the log, the first within
  // them that makes a plan of the finalized `graph`: of those that the heuristic has,
  // then of the general ones.
  //
  // UNSUPPORTED_OP  there is none: cuDNN's own words, or the rules
  static absl::StatusOr<CudnnPlan> Make(std::shared_ptr<const Cudnn> library,
                                        void* handle, CudnnBackend graph,
                                        const CudnnEngineRules& rules,
                                        std::vector<CudnnScalar> scalars);

  // The engines within the rules that make a plan of the finalized `graph`, in the
  // order of Make, `most` at most: "engine12.3=1.8=2", cuDNN's number of the engine
  // and its knobs' numbers with their values. Each once.
  static absl::StatusOr<std::vector<std::string>> Engines(
      std::shared_ptr<const Cudnn> library, void* handle, CudnnBackend graph,
      const CudnnEngineRules& rules, int most);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  // Of the engine that was taken; "" where cuDNN does not tell.
  std::string EngineName() const;
  // `handle`: with its stream set.
  absl::Status Run(void* handle, absl::Span<const CudnnBinding> bindings,
                   void* workspace) const;

 private:
  absl::StatusOr<std::vector<CudnnBackend>> Configs(int mode) const;
  absl::StatusOr<std::vector<CudnnBackend>> Described(const CudnnBackend& from,
                                                      int attribute, int kind,
                                                      int most) const;
  // False where there is none of that name within the rules.
  bool TakeNamed(void* handle, const CudnnEngineRules& rules);
  absl::Status TakeEngine(void* handle, std::vector<CudnnBackend> configs,
                          const CudnnEngineRules& rules, std::string& refusals);
  absl::StatusOr<std::string> NameOf(const CudnnBackend& config) const;
  absl::Status TakeConfig(void* handle, CudnnBackend config,
                          const CudnnEngineRules& rules);
  absl::StatusOr<CudnnBackend> EngineOf(const CudnnBackend& config) const;
  absl::Status CheckEngine(const CudnnBackend& config,
                           const CudnnEngineRules& rules) const;

  std::shared_ptr<const Cudnn> library_;
  std::vector<CudnnScalar> scalars_;
  CudnnBackend graph_, config_, plan_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUDNN_PLAN_H_
