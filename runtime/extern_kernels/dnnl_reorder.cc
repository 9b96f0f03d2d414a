#include "runtime/extern_kernels/dnnl_reorder.h"

#include <algorithm>
#include <utility>

#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int kBatchDim = 0, kChannelDim = 1, kFirstSpatialDim = 2;

// A layout of images of which each pixel, and each channel, is a step behind the one
// before. Elements.
struct Planes {
  int64_t image_step, channel_step, pixel_step;
};

std::optional<Planes> PlanesOf(const dnnl_memory_desc_t& layout) {
  const dnnl_blocking_desc_t& blocking = layout.format_desc.blocking;
  const bool plain =
      layout.format_kind == dnnl_blocked && blocking.inner_nblks == 0 &&
      layout.data_type == dnnl_f32 && layout.offset0 == 0 &&
      layout.ndims > kFirstSpatialDim &&
      std::equal(layout.dims, layout.dims + layout.ndims, layout.padded_dims);
  if (!plain) return std::nullopt;
  for (int dim = kFirstSpatialDim; dim + 1 < layout.ndims; ++dim) {
    if (blocking.strides[dim] !=
        blocking.strides[dim + 1] * layout.dims[dim + 1])
      return std::nullopt;
  }
  return Planes{blocking.strides[kBatchDim], blocking.strides[kChannelDim],
                blocking.strides[layout.ndims - 1]};
}

}  // namespace

std::optional<DnnlReorder::Images> DnnlReorder::ImagesOf(
    const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to) {
  const std::optional<Planes> read = PlanesOf(from), written = PlanesOf(to);
  if (!read.has_value() || !written.has_value()) return std::nullopt;
  int64_t pixels = 1;
  for (int dim = kFirstSpatialDim; dim < from.ndims; ++dim)
    pixels *= from.dims[dim];
  const int64_t channels = from.dims[kChannelDim];
  Images images = {from.dims[kBatchDim], read->image_step, written->image_step};
  if (read->pixel_step == 1 && written->channel_step == 1) {
    images.rows = channels;
    images.row_step = read->channel_step;
    images.columns = pixels;
    images.column_step = written->pixel_step;
  } else if (read->channel_step == 1 && written->pixel_step == 1) {
    images.rows = pixels;
    images.row_step = read->pixel_step;
    images.columns = channels;
    images.column_step = written->channel_step;
  } else {
    return std::nullopt;
  }
  return images;
}

absl::StatusOr<std::unique_ptr<const DnnlReorder>> DnnlReorder::Create(
    std::shared_ptr<const DnnlLibrary> library, const dnnl_memory_desc_t& from,
    const dnnl_memory_desc_t& to) {
  std::unique_ptr<DnnlReorder> made(new DnnlReorder(from, to));
  if (!made->images_.has_value()) {
    ASSIGN_OR_RETURN(made->primitive_, DnnlPrimitive::CreateReorder(
                                           std::move(library), from, to));
  }
  return std::unique_ptr<const DnnlReorder>(std::move(made));
}

absl::Status DnnlReorder::Execute(void* from, void* to, OnTheWay way) const {
  if (primitive_ != nullptr) {
    return primitive_->Execute(
        {{DNNL_ARG_FROM, &from_, from}, {DNNL_ARG_TO, &to_, to}});
  }
  const Images& i = *images_;
  for (int64_t n = 0; n < i.count; ++n) {
    TransposeFloats(static_cast<const float*>(from) + n * i.from_step,
                    i.row_step, static_cast<float*>(to) + n * i.to_step,
                    i.column_step, i.rows, i.columns, way);
  }
  return absl::OkStatus();
}

}  // namespace kiln
