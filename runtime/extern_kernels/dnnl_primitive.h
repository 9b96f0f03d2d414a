#ifndef KILN_RUNTIME_EXTERN_KERNELS_DNNL_PRIMITIVE_H_
#define KILN_RUNTIME_EXTERN_KERNELS_DNNL_PRIMITIVE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/extern_kernels/dnnl_library.h"

namespace kiln {

// A primitive of oneDNN with its description. Immutable; Execute may be called
// from many threads at once. Destroys both.
class DnnlPrimitive {
 public:
  struct Argument {
    int which = 0;  // DNNL_ARG_...
    const dnnl_memory_desc_t* layout = nullptr;
    void* data = nullptr;
  };

  // Makes the primitive of an operation description. The scratchpad is the
  // caller's (scratchpad_layout), so that threads do not share one.
  static absl::StatusOr<std::unique_ptr<const DnnlPrimitive>> Create(
      std::shared_ptr<const DnnlLibrary> library, const_dnnl_op_desc_t what);

  // Copies between two layouts of one tensor.
  static absl::StatusOr<std::unique_ptr<const DnnlPrimitive>> CreateReorder(
      std::shared_ptr<const DnnlLibrary> library,
      const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to);

  ~DnnlPrimitive();
  DnnlPrimitive(const DnnlPrimitive&) = delete;
  DnnlPrimitive& operator=(const DnnlPrimitive&) = delete;

  // The layout the primitive wants or chose for an argument; of size zero when
  // it takes no such argument.
  const dnnl_memory_desc_t& Layout(int argument) const;
  int64_t Bytes(const dnnl_memory_desc_t& layout) const;

  // At most six arguments.
  absl::Status Execute(absl::Span<const Argument> arguments) const;

 private:
  explicit DnnlPrimitive(std::shared_ptr<const DnnlLibrary> library)
      : library_(std::move(library)) {}

  const std::shared_ptr<const DnnlLibrary> library_;
  dnnl_primitive_desc_t description_ = nullptr;
  dnnl_primitive_t primitive_ = nullptr;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_DNNL_PRIMITIVE_H_
