#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUBLASLT_API_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUBLASLT_API_H_

#include <cstddef>
#include <cstdint>

#include "runtime/extern_kernels/cublaslt.h"

// The part of cuBLASLt's documented C ABI that is called (cuBLAS library
// reference, "cuBLASLt"): functions found at run time, sizes and values of its
// types. The semi-opaque descriptors may be copied as bytes, it says there.

namespace kiln {

inline constexpr int kCublasCompute32F = 68;
inline constexpr int kCublasCompute64F = 70;
inline constexpr int kCublasCompute32FFastTf32 = 77;
inline constexpr int kCudaReal32F = 0;
inline constexpr int kCudaReal64F = 1;
inline constexpr int kCudaReal16F = 2;
inline constexpr int kCudaReal16BF = 14;

inline constexpr int kLtLayoutBatchCount = 5;
inline constexpr int kLtLayoutBatchStride = 6;
inline constexpr int kLtDescTransposeA = 3;
inline constexpr int kLtDescTransposeB = 4;
inline constexpr int kLtDescEpilogue = 7;
inline constexpr int kLtDescBiasPointer = 8;
inline constexpr int kLtDescBiasBatchStride = 10;
inline constexpr int kLtDescEpilogueInput = 11;        // AUX_POINTER
inline constexpr int kLtDescEpilogueInputStride = 12;  // AUX_LD, 64 bits
inline constexpr int kLtDescBiasType = 26;
inline constexpr int kLtPreferWorkspaceBytes = 1;
inline constexpr int kLtPreferReductionSchemes = 3;        // a mask
inline constexpr int kLtPreferAlignment[] = {5, 6, 7, 8};  // of A, B, C, D
// How the parts of a sum that is cut along K are added: in the result itself
// (and its dtype), apart in the compute type, apart in the result's dtype.
inline constexpr uint32_t kLtReduceInPlace = 1;
inline constexpr uint32_t kLtReduceInComputeType = 2;
inline constexpr uint32_t kLtReduceInOutputType = 4;
// Of an algorithm; the sizes of their values differ.
inline constexpr int kLtConfigId = 0;
inline constexpr int kLtConfigTile = 1;
inline constexpr int kLtConfigSplit = 2;
inline constexpr int kLtConfigReduction = 3;
inline constexpr int kLtConfigSwizzle = 4;
inline constexpr int kLtConfigCustom = 5;
inline constexpr int kLtConfigStages = 6;
inline constexpr int kLtConfigInner = 7;    // 16 bits
inline constexpr int kLtConfigCluster = 8;  // 16 bits
inline constexpr uint32_t kLtEpilogueDefault = 1;
inline constexpr uint32_t kLtEpilogueRelu = 2;
inline constexpr uint32_t kLtEpilogueBias = 4;
inline constexpr uint32_t kLtEpilogueGelu = 32;
inline constexpr uint32_t kLtEpilogueGeluGradient = 64 | 128;  // DGELU

struct LtMatmulDescription {
  uint64_t words[32];
};
struct LtMatrixLayout {
  uint64_t words[8];
};
struct LtPreference {
  uint64_t words[8];
};
struct LtAlgorithm {
  uint64_t words[8];
};
struct LtHeuristicResult {
  LtAlgorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

struct CublasLt::Functions {
  int (*cublasLtCreate)(void** handle);
  int (*cublasLtDestroy)(void* handle);
  const char* (*cublasLtGetStatusName)(int status);
  int (*cublasLtMatmulDescInit_internal)(LtMatmulDescription*, size_t, int,
                                         int);
  int (*cublasLtMatrixLayoutInit_internal)(LtMatrixLayout*, size_t, int,
                                           uint64_t, uint64_t, int64_t);
  int (*cublasLtMatmulPreferenceInit_internal)(LtPreference*, size_t);
  int (*cublasLtMatmulDescSetAttribute)(LtMatmulDescription*, int, const void*,
                                        size_t);
  int (*cublasLtMatrixLayoutSetAttribute)(LtMatrixLayout*, int, const void*,
                                          size_t);
  int (*cublasLtMatmulPreferenceSetAttribute)(LtPreference*, int, const void*,
                                              size_t);
  int (*cublasLtMatmulAlgoGetHeuristic)(
      void* handle, const LtMatmulDescription*, const LtMatrixLayout* a,
      const LtMatrixLayout* b, const LtMatrixLayout* c, const LtMatrixLayout* d,
      const LtPreference*, int wanted, LtHeuristicResult* results, int* found);
  int (*cublasLtMatmulAlgoConfigGetAttribute)(const LtAlgorithm*, int, void*,
                                              size_t, size_t* written);
  int (*cublasLtMatmul)(void* handle, const LtMatmulDescription*,
                        const void* alpha, const void* a, const LtMatrixLayout*,
                        const void* b, const LtMatrixLayout*, const void* beta,
                        const void* c, const LtMatrixLayout*, void* d,
                        const LtMatrixLayout*, const LtAlgorithm*,
                        void* workspace, size_t workspace_bytes, CUstream);
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUBLASLT_API_H_
