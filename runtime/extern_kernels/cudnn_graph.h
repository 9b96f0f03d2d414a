#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUDNN_GRAPH_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUDNN_GRAPH_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/extern_kernels/cudnn.h"
#include "runtime/extern_kernels/cudnn_api.h"
#include "runtime/extern_kernels/cudnn_shapes.h"

// cuDNN's graph interface: operations over tensors, written down as
// descriptors, for which the library has one kernel or a few. Source: cuDNN's
// backend API reference.

namespace kiln {

// A descriptor of the graph interface. Destroys it.
class CudnnBackend {
 public:
  CudnnBackend() = default;
  CudnnBackend(CudnnBackend&& other) noexcept
      : library_(other.library_),
        descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  CudnnBackend& operator=(CudnnBackend&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~CudnnBackend();

  // `kind`: cudnnBackendDescriptorType_t. `library` outlives the descriptor.
  static absl::StatusOr<CudnnBackend> Create(const Cudnn& library, int kind);
  absl::Status SetInts(int attribute, absl::Span<const int64_t> values);
  // One of a type of the interface (cudnnBackendAttributeType_t).
  absl::Status Set(int attribute, int type, const void* value,
                   int64_t count = 1);
  absl::Status SetEnum(int attribute, int type, int value) {
    return Set(attribute, type, &value);
  }
  absl::Status SetDescriptors(int attribute,
                              absl::Span<const CudnnDescriptor> values);
  absl::Status Finalize();

  CudnnDescriptor get() const { return descriptor_; }

 private:
  CudnnBackend(const Cudnn& library, CudnnDescriptor descriptor)
      : library_(&library), descriptor_(descriptor) {}
  const Cudnn* library_ = nullptr;
  CudnnDescriptor descriptor_ = nullptr;
};

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

// A graph in the making, then the plan that computes it. The first error is
// kept and told by Build; what follows it does nothing.
//
// Written by one thread; then immutable, and Run may be called by many.
class CudnnGraph {
 public:
  using Tensor = CudnnTensor;
  using Into = CudnnInto;
  struct Binding {
    int64_t id;
    void* address;
  };

  explicit CudnnGraph(std::shared_ptr<Cudnn> library);

  // Memory of the caller's, aligned to 16 bytes.
  Tensor Memory(int type, const CudnnLongs& sizes, const CudnnLongs& strides);
  // What exists inside of a kernel alone, row-major without strides.
  Tensor Inside(int type, const CudnnLongs& sizes);
  Tensor Scalar(float value);

  Tensor Pointwise(CudnnPointwise mode, const Tensor& x, const Tensor& b,
                   Into into = {});
  Tensor Unary(CudnnPointwise mode, const Tensor& x, Into into = {});
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

  // Takes the first of the heuristic's engines that makes a plan.
  //
  // UNSUPPORTED_OP  cuDNN has no engine for the graph: its own words
  absl::Status Build(void* handle);

  // After Build.
  int64_t workspace_bytes() const { return workspace_bytes_; }
  absl::Status Run(void* handle, absl::Span<const Binding> bindings,
                   void* workspace) const;

 private:
  enum class Kind { kMemory, kInside, kScalar };
  CudnnBackend* Make(int kind);
  bool Check(absl::Status status);
  Tensor AddTensor(int type, const CudnnLongs& sizes, const CudnnLongs& strides,
                   Kind kind);
  Tensor AddPointwise(CudnnPointwise mode, int math, const Tensor& x,
                      const Tensor* b, const Tensor* t, Into into,
                      int64_t axis);
  absl::Status TakeEngine(void* handle, int mode, std::string& refusals);
  absl::Status MakePlan(void* handle, CudnnDescriptor engine);

  const std::shared_ptr<Cudnn> library_;
  absl::Status status_;
  std::deque<CudnnBackend> descriptors_;  // addresses stay
  std::vector<CudnnDescriptor> operations_;
  std::deque<float> scalars_;
  std::vector<Binding> scalar_bindings_;
  int64_t last_id_ = 0;
  CudnnBackend graph_;
  std::vector<CudnnBackend> engines_;
  CudnnBackend plan_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUDNN_GRAPH_H_
