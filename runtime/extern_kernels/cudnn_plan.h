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
  // Preferred to all others if it is within the rules: one of CudnnPlan::Engines.
  std::string named;
};

// Where a tensor of a graph lies.
struct CudnnBinding {
  int64_t id;
  void* address;
};

// A number that is passed to a graph by value.
struct CudnnScalar {
  int64_t id;
  float value;
};

// A graph and the engine that computes it. Immutable. Run may be called from many
// threads, each with its own handle.
class CudnnPlan {
 public:
  CudnnPlan() = default;

  // Takes the engine that the rules name. If that fails, logs it and takes the first
  // engine within the rules that makes a plan of the finalized `graph`: first from
  // cuDNN's heuristic, then from its general engines.
  //
  // UNSUPPORTED_OP  there is no such engine; the text has cuDNN's messages or the rules
  static absl::StatusOr<CudnnPlan> Make(std::shared_ptr<const Cudnn> library,
                                        void* handle, CudnnBackend graph,
                                        const CudnnEngineRules& rules,
                                        std::vector<CudnnScalar> scalars);

  // The engines within the rules that make a plan of the finalized `graph`, at most
  // `most`, in the order in which Make tries them, without duplicates. A name such as
  // "engine12.3=1.8=2" has cuDNN's number of the engine and the numbers and values of its
  // knobs.
  static absl::StatusOr<std::vector<std::string>> Engines(
      std::shared_ptr<const Cudnn> library, void* handle, CudnnBackend graph,
      const CudnnEngineRules& rules, int most);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  // The name of the chosen engine; "" if cuDNN does not report it.
  std::string EngineName() const;
  // `handle`: with its stream set.
  absl::Status Run(void* handle, absl::Span<const CudnnBinding> bindings,
                   void* workspace) const;

 private:
  absl::StatusOr<std::vector<CudnnBackend>> Configs(int mode) const;
  absl::StatusOr<std::vector<CudnnBackend>> Described(const CudnnBackend& from,
                                                      int attribute, int kind,
                                                      int most) const;
  // False if no engine within the rules has that name.
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
