// Views that own their memory: aten.expand_copy is the contents of
// aten.expand, contiguous. Names and schemas follow the views' own.

#include <cstddef>
#include <utility>

#include "compiler/graph/op_families.h"
#include "compiler/graph/op_table.h"
#include "compiler/graph/tensor_meta.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kDecompose = Handling::kDecompose;

// A name as a template argument.
template <size_t kLength>
struct Name {
  char text[kLength];
  // NOLINTNEXTLINE: a literal stands for a name
  constexpr Name(const char (&literal)[kLength]) {
    for (size_t i = 0; i < kLength; ++i) text[i] = literal[i];
  }
};

// What the view infers, in memory of its own.
template <Name kView>
absl::StatusOr<TensorMetas> InferCopyOf(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMetas metas, KnownOp(kView.text).infer(in));
  for (TensorMeta& meta : metas) {
    meta = ContiguousMeta(meta.dtype, std::move(meta.sizes));
  }
  return metas;
}

constexpr OpRow kRows[] = {
    {"aten.alias_copy.default", "(Tensor self) -> Tensor",
     InferCopyOf<"aten.alias.default">, kDecompose},
    {"aten.detach_copy.default", "(Tensor self) -> Tensor",
     InferCopyOf<"aten.detach.default">, kDecompose},
    {"aten.as_strided_copy.default",
     "(Tensor self, SymInt[] size, SymInt[] stride, SymInt? "
     "storage_offset=None) -> Tensor",
     InferCopyOf<"aten.as_strided.default">, kDecompose},
    {"aten.diagonal_copy.default",
     "(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
     InferCopyOf<"aten.diagonal.default">, kDecompose},
    {"aten.expand_copy.default",
     "(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
     InferCopyOf<"aten.expand.default">, kDecompose},
    {"aten.narrow_copy.default",
     "(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
     InferCopyOf<"aten.narrow.default">, kDecompose},
    {"aten.permute_copy.default", "(Tensor self, int[] dims) -> Tensor",
     InferCopyOf<"aten.permute.default">, kDecompose},
    {"aten.select_copy.int", "(Tensor self, int dim, SymInt index) -> Tensor",
     InferCopyOf<"aten.select.int">, kDecompose},
    {"aten.slice_copy.Tensor",
     "(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt "
     "step=1) -> Tensor",
     InferCopyOf<"aten.slice.Tensor">, kDecompose},
    {"aten.split_with_sizes_copy.default",
     "(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
     InferCopyOf<"aten.split_with_sizes.default">, kDecompose},
    {"aten.squeeze_copy.default", "(Tensor self) -> Tensor",
     InferCopyOf<"aten.squeeze.default">, kDecompose},
    {"aten.squeeze_copy.dim", "(Tensor self, int dim) -> Tensor",
     InferCopyOf<"aten.squeeze.dim">, kDecompose},
    {"aten.squeeze_copy.dims", "(Tensor self, int[] dim) -> Tensor",
     InferCopyOf<"aten.squeeze.dims">, kDecompose},
    {"aten.t_copy.default", "(Tensor self) -> Tensor",
     InferCopyOf<"aten.t.default">, kDecompose},
    {"aten.transpose_copy.int", "(Tensor self, int dim0, int dim1) -> Tensor",
     InferCopyOf<"aten.transpose.int">, kDecompose},
    {"aten.unbind_copy.int", "(Tensor self, int dim=0) -> Tensor[]",
     InferCopyOf<"aten.unbind.int">, kDecompose},
    {"aten.unfold_copy.default",
     "(Tensor self, int dimension, int size, int step) -> Tensor",
     InferCopyOf<"aten.unfold.default">, kDecompose},
    {"aten.unsqueeze_copy.default", "(Tensor self, int dim) -> Tensor",
     InferCopyOf<"aten.unsqueeze.default">, kDecompose},
    {"aten.view_copy.default", "(Tensor self, SymInt[] size) -> Tensor",
     InferCopyOf<"aten.view.default">, kDecompose},
};

}  // namespace

absl::Span<const OpRow> ViewCopyOps() { return kRows; }

}  // namespace kiln
