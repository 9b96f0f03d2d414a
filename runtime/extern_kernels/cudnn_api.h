#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUDNN_API_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUDNN_API_H_

#include <cstddef>
#include <cstdint>

#include "runtime/extern_kernels/cudnn.h"

// The part of cuDNN's documented C ABI that is called (cuDNN API reference,
// cudnn_ops and cudnn_cnn): functions found at run time. Descriptors are opaque
// pointers, enumerations are ints.

namespace kiln {

inline constexpr int kCudnnFloat = 0;
inline constexpr int kCudnnDouble = 1;
inline constexpr int kCudnnHalf = 2;
inline constexpr int kCudnnBFloat16 = 9;
inline constexpr int kCudnnNchw = 0;
inline constexpr int kCudnnNhwc = 1;
inline constexpr int kCudnnCrossCorrelation = 1;
inline constexpr int kCudnnDefaultMath = 0;  // f32 may go through TF32
inline constexpr int kCudnnTensorOpMath = 1;
inline constexpr int kCudnnFmaMath = 3;
inline constexpr int kCudnnDeterministic = 1;
// Algorithms that compute in a transformed domain: FFT, FFT_TILING, WINOGRAD
// and WINOGRAD_NONFUSED of each of the three products.
inline constexpr int kCudnnForwardTransforms[] = {4, 5, 6, 7};
inline constexpr int kCudnnBackwardDataTransforms[] = {2, 3, 4, 5};
inline constexpr int kCudnnBackwardFilterTransforms[] = {2, 4, 5, 6};
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
  kGreater = 302,
  kGreaterEqual = 303,
  kIndex = 501,
  kSelect = 601,
};
enum class CudnnReduce : int { kSum = 0, kMax = 3 };
inline constexpr int kCudnnNotSupportedFirst = 3000;
inline constexpr int kCudnnNotSupportedLast = 3999;

// cudnnConvolutionFwdAlgoPerf_t and its two siblings.
struct CudnnAlgorithm {
  int algorithm;
  int status;
  float time;
  size_t memory;
  int determinism;
  int math_type;
  int reserved[3];
};

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
  int (*cudnnCreateFilterDescriptor)(CudnnDescriptor*);
  int (*cudnnDestroyFilterDescriptor)(CudnnDescriptor);
  int (*cudnnSetFilterNdDescriptor)(CudnnDescriptor, int type, int format,
                                    int rank, const int* sizes);
  int (*cudnnCreateConvolutionDescriptor)(CudnnDescriptor*);
  int (*cudnnDestroyConvolutionDescriptor)(CudnnDescriptor);
  int (*cudnnSetConvolutionNdDescriptor)(CudnnDescriptor, int rank,
                                         const int* padding, const int* stride,
                                         const int* dilation, int mode,
                                         int type);
  int (*cudnnSetConvolutionGroupCount)(CudnnDescriptor, int);
  int (*cudnnSetConvolutionMathType)(CudnnDescriptor, int);
  int (*cudnnAddTensor)(void* handle, const void* alpha, CudnnDescriptor,
                        const void* a, const void* beta, CudnnDescriptor,
                        void* c);
  int (*cudnnGetConvolutionForwardAlgorithm_v7)(void* handle, CudnnDescriptor x,
                                                CudnnDescriptor w,
                                                CudnnDescriptor,
                                                CudnnDescriptor y, int wanted,
                                                int* found, CudnnAlgorithm*);
  int (*cudnnGetConvolutionBackwardDataAlgorithm_v7)(
      void* handle, CudnnDescriptor w, CudnnDescriptor dy, CudnnDescriptor,
      CudnnDescriptor dx, int wanted, int* found, CudnnAlgorithm*);
  int (*cudnnGetConvolutionBackwardFilterAlgorithm_v7)(
      void* handle, CudnnDescriptor x, CudnnDescriptor dy, CudnnDescriptor,
      CudnnDescriptor dw, int wanted, int* found, CudnnAlgorithm*);
  int (*cudnnGetConvolutionForwardWorkspaceSize)(
      void* handle, CudnnDescriptor x, CudnnDescriptor w, CudnnDescriptor,
      CudnnDescriptor y, int algorithm, size_t* bytes);
  int (*cudnnGetConvolutionBackwardDataWorkspaceSize)(
      void* handle, CudnnDescriptor w, CudnnDescriptor dy, CudnnDescriptor,
      CudnnDescriptor dx, int algorithm, size_t* bytes);
  int (*cudnnGetConvolutionBackwardFilterWorkspaceSize)(
      void* handle, CudnnDescriptor x, CudnnDescriptor dy, CudnnDescriptor,
      CudnnDescriptor dw, int algorithm, size_t* bytes);
  int (*cudnnConvolutionForward)(void* handle, const void* alpha,
                                 CudnnDescriptor, const void* x,
                                 CudnnDescriptor, const void* w,
                                 CudnnDescriptor, int algorithm,
                                 void* workspace, size_t bytes,
                                 const void* beta, CudnnDescriptor, void* y);
  int (*cudnnConvolutionBackwardData)(void* handle, const void* alpha,
                                      CudnnDescriptor, const void* w,
                                      CudnnDescriptor, const void* dy,
                                      CudnnDescriptor, int algorithm,
                                      void* workspace, size_t bytes,
                                      const void* beta, CudnnDescriptor,
                                      void* dx);
  int (*cudnnConvolutionBackwardFilter)(void* handle, const void* alpha,
                                        CudnnDescriptor, const void* x,
                                        CudnnDescriptor, const void* dy,
                                        CudnnDescriptor, int algorithm,
                                        void* workspace, size_t bytes,
                                        const void* beta, CudnnDescriptor,
                                        void* dw);
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUDNN_API_H_
