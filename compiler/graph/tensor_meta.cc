#include "compiler/graph/tensor_meta.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

std::string DefaultName(Var var) { return SymExpr::Of(var).ToString(); }

std::string DimsText(const DimVector& dims,
                     absl::FunctionRef<std::string(Var)> name_of) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", dims[i].ToString(name_of));
  }
  return absl::StrCat(text, "]");
}

}  // namespace

DimVector ContiguousStrides(const DimVector& sizes) {
  DimVector strides(sizes.size());
  SymExpr stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    if (!sizes[i].Is(0) && !sizes[i].Is(1)) stride = stride * sizes[i];
  }
  return strides;
}

DimVector ChannelsLastStrides(const DimVector& sizes) {
  // Innermost first: channels, then width up to depth, then batch.
  DimVector strides(sizes.size());
  SymExpr stride = 1;
  const auto place = [&](size_t dim) {
    strides[dim] = stride;
    if (!sizes[dim].Is(0) && !sizes[dim].Is(1)) stride = stride * sizes[dim];
  };
  place(1);
  for (size_t i = sizes.size() - 1; i >= 2; --i) place(i);
  place(0);
  return strides;
}

TensorMeta ContiguousMeta(DType dtype, DimVector sizes) {
  TensorMeta meta;
  meta.dtype = dtype;
  meta.strides = ContiguousStrides(sizes);
  meta.sizes = std::move(sizes);
  return meta;
}

std::string ToText(const TensorMeta& meta,
                   absl::FunctionRef<std::string(Var)> name_of) {
  if (!meta.defined) return "none";
  std::string text =
      absl::StrCat(ShortName(meta.dtype), DimsText(meta.sizes, name_of));
  if (meta.strides != ContiguousStrides(meta.sizes)) {
    absl::StrAppend(&text, " strides ", DimsText(meta.strides, name_of));
  }
  if (!meta.offset.Is(0)) {
    absl::StrAppend(&text, " offset ", meta.offset.ToString(name_of));
  }
  return text;
}

std::string ToText(const TensorMeta& meta) { return ToText(meta, DefaultName); }

std::string ToText(const DimVector& dims) {
  return DimsText(dims, DefaultName);
}

}  // namespace kiln
