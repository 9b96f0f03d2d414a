#ifndef KILN_RUNTIME_EXTERN_KERNELS_DNNL_REORDER_H_
#define KILN_RUNTIME_EXTERN_KERNELS_DNNL_REORDER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/extern_kernels/dnnl_library.h"
#include "runtime/extern_kernels/dnnl_primitive.h"
#include "runtime/extern_kernels/transpose_floats.h"

namespace kiln {

// Copies a tensor from one of oneDNN's layouts to another on one thread: by oneDNN, but
// f32 images between channels-first and channels-last by TransposeFloats, which is
// faster. Immutable; Execute may be called from many threads at once.
class DnnlReorder {
 public:
  static absl::StatusOr<std::unique_ptr<const DnnlReorder>> Create(
      std::shared_ptr<const DnnlLibrary> library,
      const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to);

  // Whether Execute takes a relu along.
  bool TakesRelu() const { return images_.has_value(); }

  // `way`: kRelu only where TakesRelu().
  absl::Status Execute(void* from, void* to,
                       OnTheWay way = OnTheWay::kNothing) const;

 private:
  // A transposition of each image; steps in elements.
  struct Images {
    int64_t count, from_step, to_step;
    int64_t rows, row_step, columns, column_step;
  };
  static std::optional<Images> ImagesOf(const dnnl_memory_desc_t& from,
                                        const dnnl_memory_desc_t& to);

  DnnlReorder(const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to)
      : from_(from), to_(to), images_(ImagesOf(from, to)) {}

  const dnnl_memory_desc_t from_;
  const dnnl_memory_desc_t to_;
  const std::optional<Images> images_;
  // Null where `images_` is set.
  std::unique_ptr<const DnnlPrimitive> primitive_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_DNNL_REORDER_H_
