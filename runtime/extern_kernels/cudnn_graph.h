#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUDNN_GRAPH_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUDNN_GRAPH_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/extern_kernels/cudnn.h"
#include "runtime/extern_kernels/cudnn_api.h"
#include "runtime/extern_kernels/cudnn_backend.h"
#include "runtime/extern_kernels/cudnn_plan.h"
#include "runtime/extern_kernels/cudnn_shapes.h"

// cuDNN's graph interface: operations over tensors, written down as
// descriptors, for which the library has one kernel or a few. Source: cuDNN's
// backend API reference.

namespace kiln {

struct CudnnTensor {
  int64_t id = 0;
  CudnnDescriptor descriptor = nullptr;
  CudnnLongs sizes, strides;
};

// What an operation gives: its elements' type, and their memory when it is the
// caller's and not the kernel's own.
struct CudnnInto {
  int type = kCudnnFloat;
  const CudnnTensor* memory = nullptr;
};

// How the window of a convolution moves, and which of its three arrays is
// computed. `math`: the type of products and sums.
struct CudnnWindow {
  ConvolutionProblem::Wanted wanted = ConvolutionProblem::Wanted::kResult;
  int math = kCudnnFloat;
  CudnnLongs padding, stride, dilation;
};

// A graph in the making. The first error is kept and told by Build; what
// follows it does nothing. Used by one thread.
class CudnnGraph {
 public:
  using Tensor = CudnnTensor;
  using Into = CudnnInto;
  using Binding = CudnnBinding;

  explicit CudnnGraph(std::shared_ptr<Cudnn> library);

  // Memory of the caller's, aligned to 16 bytes.
  Tensor Memory(int type, const CudnnLongs& sizes, const CudnnLongs& strides);
  // What exists inside of a kernel alone, row-major without strides.
  Tensor Inside(int type, const CudnnLongs& sizes);
  // The same, which lies as `like` does.
  Tensor InsideLike(int type, const Tensor& like);
  Tensor Scalar(float value);

  Tensor Pointwise(CudnnPointwise mode, const Tensor& x, const Tensor& b,
                   Into into = {});
  Tensor Unary(CudnnPointwise mode, const Tensor& x, Into into = {});
  // x + scale * b.
  Tensor AddScaled(const Tensor& x, const Tensor& b, float scale, Into into);
  // Where each element of `like` stands along a dimension, as int32.
  Tensor Index(const Tensor& like, int64_t dimension);
  // Whether x `compare` b, and x or `otherwise` by it.
  Tensor SelectWhere(CudnnPointwise compare, const Tensor& x, const Tensor& b,
                     const Tensor& yes, float otherwise);
  Tensor Matmul(const Tensor& a, const Tensor& b, const Tensor& into);
  Tensor Reduce(CudnnReduce op, const Tensor& x, const Tensor& into);
  // The last two dimensions exchanged.
  Tensor Transpose(const Tensor& x, int type);
  // 1 with probability `kept`, else 0, by a seed and an offset (int64, on the
  // device).
  Tensor Bernoulli(double kept, const Tensor& seed, const Tensor& offset,
                   const CudnnLongs& sizes);

  // One of image, weights and result from the other two.
  Tensor Convolve(const CudnnWindow& window, const Tensor& image,
                  const Tensor& weights, const Tensor& result);

  // The plan that computes it. It needs the graph no more.
  //
  // UNSUPPORTED_OP  cuDNN has no engine within the rules: its own words
  absl::StatusOr<CudnnPlan> Build(void* handle,
                                  const CudnnEngineRules& rules = {}) const;
  // Names of the engines that Build may take (CudnnPlan::Engines).
  absl::StatusOr<std::vector<std::string>> Engines(
      void* handle, const CudnnEngineRules& rules, int most) const;

 private:
  enum class Kind { kMemory, kInside, kScalar };
  CudnnBackend* Make(int kind);
  absl::StatusOr<CudnnBackend> Finalized(void* handle) const;
  bool Check(absl::Status status);
  Tensor AddTensor(int type, const CudnnLongs& sizes, const CudnnLongs& strides,
                   Kind kind);
  Tensor AddPointwise(CudnnPointwise mode, int math, const Tensor& x,
                      const Tensor* b, const Tensor* t, Into into, int64_t axis,
                      float b_scale = 1);

  const std::shared_ptr<Cudnn> library_;
  absl::Status status_;
  std::deque<CudnnBackend> descriptors_;  // addresses stay
  std::vector<CudnnDescriptor> operations_;
  std::vector<CudnnScalar> scalars_;
  int64_t last_id_ = 0;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUDNN_GRAPH_H_
