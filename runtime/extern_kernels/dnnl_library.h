#ifndef KILN_RUNTIME_EXTERN_KERNELS_DNNL_LIBRARY_H_
#define KILN_RUNTIME_EXTERN_KERNELS_DNNL_LIBRARY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "oneapi/dnnl/dnnl.h"
#include "runtime/shared_library.h"

namespace kiln {

// oneDNN 2.x as found on the machine: its C functions, and one CPU engine.
// Thread-safe; never closed.
//
// Its own threads (OpenMP) are not used: they spin on the cores that our
// kernels want next. We cut the work into pieces for our own pool, and each
// piece calls the library under a SingleThread.
class DnnlLibrary {
 public:
  // NO_DEVICE  no libdnnl.so.2, or one that lacks a function
  static absl::StatusOr<std::shared_ptr<const DnnlLibrary>> Open(
      const std::vector<std::string>& folders);

  ~DnnlLibrary();
  DnnlLibrary(const DnnlLibrary&) = delete;
  DnnlLibrary& operator=(const DnnlLibrary&) = delete;

  // The calling thread's calls into the library use this thread alone, also
  // what is created meanwhile.
  class SingleThread {
   public:
    explicit SingleThread(const DnnlLibrary& library)
        : library_(library), before_(library.omp_get_max_threads()) {
      library_.omp_set_num_threads(1);
    }
    ~SingleThread() { library_.omp_set_num_threads(before_); }
    SingleThread(const SingleThread&) = delete;
    SingleThread& operator=(const SingleThread&) = delete;

   private:
    const DnnlLibrary& library_;
    const int before_;
  };

  dnnl_engine_t engine() const { return engine_; }
  dnnl_stream_t stream() const { return stream_; }

  // The processor has vectors of 64 bytes, and the library uses them.
  bool has_avx512() const;

  // The library's kernels are those for AVX2, not those for AVX-512.
  bool has_avx2_alone() const;

  // The processor has bf16 products, and the library uses them (it may be told
  // not to by ONEDNN_MAX_CPU_ISA).
  bool multiplies_bf16() const;

  // Counts the calls whose weights were brought into a blocked layout.
  void CountWeightReorder() const { ++weight_reorders_; }
  int64_t weight_reorders() const { return weight_reorders_.load(); }

  // OK, or INTERNAL with what was called and the library's code.
  // dnnl_unimplemented is UNSUPPORTED_OP.
  static absl::Status Check(dnnl_status_t status, absl::string_view call);

#define KILN_DNNL_FUNCTIONS(X)                           \
  X(dnnl_sgemm)                                          \
  X(dnnl_get_effective_cpu_isa)                          \
  X(dnnl_engine_create)                                  \
  X(dnnl_engine_destroy)                                 \
  X(dnnl_stream_destroy)                                 \
  X(dnnl_stream_create)                                  \
  X(dnnl_memory_desc_init_by_strides)                    \
  X(dnnl_memory_desc_init_by_tag)                        \
  X(dnnl_memory_desc_init_submemory)                     \
  X(dnnl_memory_desc_equal)                              \
  X(dnnl_memory_desc_get_size)                           \
  X(dnnl_memory_create)                                  \
  X(dnnl_memory_destroy)                                 \
  X(dnnl_primitive_attr_create)                          \
  X(dnnl_primitive_attr_destroy)                         \
  X(dnnl_primitive_attr_set_scratchpad_mode)             \
  X(dnnl_primitive_attr_set_output_scales)               \
  X(dnnl_primitive_attr_set_post_ops)                    \
  X(dnnl_post_ops_create)                                \
  X(dnnl_post_ops_destroy)                               \
  X(dnnl_post_ops_append_sum)                            \
  X(dnnl_post_ops_append_eltwise)                        \
  X(dnnl_matmul_desc_init)                               \
  X(dnnl_dilated_convolution_forward_desc_init)          \
  X(dnnl_dilated_convolution_backward_data_desc_init)    \
  X(dnnl_dilated_convolution_backward_weights_desc_init) \
  X(dnnl_primitive_desc_create)                          \
  X(dnnl_primitive_desc_destroy)                         \
  X(dnnl_primitive_desc_query_md)                        \
  X(dnnl_reorder_primitive_desc_create)                  \
  X(dnnl_primitive_create)                               \
  X(dnnl_primitive_destroy)                              \
  X(dnnl_primitive_execute)

#define KILN_DNNL_MEMBER(name) decltype(&::name) name = nullptr;
  KILN_DNNL_FUNCTIONS(KILN_DNNL_MEMBER)
#undef KILN_DNNL_MEMBER
  int (*omp_get_max_threads)() = nullptr;
  void (*omp_set_num_threads)(int) = nullptr;

 private:
  DnnlLibrary() = default;

  absl::Status FindFunctions(const SharedLibrary& library);

  dnnl_engine_t engine_ = nullptr;
  dnnl_stream_t stream_ = nullptr;
  mutable std::atomic<int64_t> weight_reorders_{0};
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_DNNL_LIBRARY_H_
