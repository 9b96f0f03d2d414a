#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUDNN_API_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUDNN_API_H_

#include <cstddef>
#include <cstdint>

#include "runtime/extern_kernels/cudnn.h"

// The part of cuDNN's documented C ABI that is called (cuDNN API reference,
// cudnn_graph and cudnn_ops): functions found at run time. Descriptors are opaque
// pointers, enumerations are ints.

namespace kiln {

inline constexpr int kCudnnFloat = 0;
inline constexpr int kCudnnDouble = 1;
inline constexpr int kCudnnHalf = 2;
inline constexpr int kCudnnBFloat16 = 9;
inline constexpr int kCudnnCrossCorrelation = 1;
// Of the graph interface (cudnn_graph.h): types of elements,
inline constexpr int kCudnnInt32 = 4;
inline constexpr int kCudnnInt64 = 10;
inline constexpr int kCudnnBoolean = 11;
// and operations (cudnnPointwiseMode_t, cudnnReduceTensorOp_t).
enum class CudnnPointwise : int {
  kAdd = 0,
  kMul = 1,
  kDiv = 6,
  kSub = 9,
  kExp = 13,
  kLog = 15,
  kIdentity = 21,
  kRelu = 100,
  kGreater = 302,
  kGreaterEqual = 303,
  kIndex = 501,
  kSelect = 601,
};
enum class CudnnReduce : int { kSum = 0, kMax = 3 };
inline constexpr int kCudnnNotSupportedFirst = 3000;
inline constexpr int kCudnnNotSupportedLast = 3999;

using CudnnDescriptor = void*;

struct Cudnn::Functions {
  int (*cudnnCreate)(void** handle);
  int (*cudnnDestroy)(void* handle);
  int (*cudnnSetStream)(void* handle, CUstream);
  size_t (*cudnnGetVersion)();  // 91900 for 9.19.0
  const char* (*cudnnGetErrorString)(int);
  void (*cudnnGetLastErrorString)(char* text, size_t room);
  int (*cudnnBackendCreateDescriptor)(int kind, CudnnDescriptor*);
  int (*cudnnBackendDestroyDescriptor)(CudnnDescriptor);
  int (*cudnnBackendSetAttribute)(CudnnDescriptor, int attribute, int type,
                                  int64_t count, const void* elements);
  int (*cudnnBackendGetAttribute)(CudnnDescriptor, int attribute, int type,
                                  int64_t room, int64_t* count, void* elements);
  int (*cudnnBackendFinalize)(CudnnDescriptor);
  int (*cudnnBackendExecute)(void* handle, CudnnDescriptor plan,
                             CudnnDescriptor pack);
  int (*cudnnCreateTensorDescriptor)(CudnnDescriptor*);
  int (*cudnnDestroyTensorDescriptor)(CudnnDescriptor);
  int (*cudnnSetTensorNdDescriptor)(CudnnDescriptor, int type, int rank,
                                    const int* sizes, const int* strides);
  int (*cudnnAddTensor)(void* handle, const void* alpha, CudnnDescriptor,
                        const void* a, const void* beta, CudnnDescriptor,
                        void* c);
  int (*cudnnCreateActivationDescriptor)(CudnnDescriptor*);
  int (*cudnnDestroyActivationDescriptor)(CudnnDescriptor);
  int (*cudnnSetActivationDescriptor)(CudnnDescriptor, int mode, int nan,
                                      double limit);
  int (*cudnnActivationForward)(void* handle, CudnnDescriptor,
                                const void* alpha, CudnnDescriptor,
                                const void* x, const void* beta,
                                CudnnDescriptor, void* y);
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUDNN_API_H_
