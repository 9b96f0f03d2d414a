#include "compiler/graph/layout_rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

bool IsPacked(const TensorMeta& meta, absl::Span<const int> inner_to_outer,
              const ShapeEnv& shapes) {
  SymExpr expected = 1;
  for (const int dim : inner_to_outer) {
    const SymExpr& size = meta.sizes[dim];
    if (size.Is(0)) return true;
    if (size.Is(1)) continue;
    if (!shapes.KnownEq(meta.strides[dim], expected)) return false;
    expected = expected * size;
  }
  return true;
}

bool IsEmpty(const TensorMeta& meta) {
  return std::any_of(meta.sizes.begin(), meta.sizes.end(),
                     [](const SymExpr& s) { return s.Is(0); });
}

// The strides of an operand as an iteration over `rank` dimensions of `sizes`
// sees them: 0 where it is broadcast.
DimVector BroadcastStrides(const TensorMeta& operand, const DimVector& sizes,
                           const ShapeEnv& shapes) {
  DimVector strides(sizes.size(), 0);
  const size_t shift = sizes.size() - operand.sizes.size();
  for (size_t d = 0; d < operand.sizes.size(); ++d) {
    const bool broadcast =
        shapes.KnownOne(operand.sizes[d]) && !sizes[d + shift].Is(1);
    if (!broadcast) strides[d + shift] = operand.strides[d];
  }
  return strides;
}

// Above 0: a should lie inside of b; below 0: the order stands; 0: undecided.
int CompareDims(size_t inner, size_t outer, const DimVector& sizes,
                absl::Span<const DimVector> strides, ShapeEnv& shapes) {
  for (const DimVector& operand : strides) {
    const SymExpr& a = operand[inner];
    const SymExpr& b = operand[outer];
    if (a.Is(0) || b.Is(0)) continue;
    if (a != b) {
      // Packed: one lies inside of the other whatever the sizes. Where they are
      // 1, the order decides a stride that nobody steps along.
      if (b == a * sizes[inner]) return -1;
      if (a == b * sizes[outer]) return 1;
      if (shapes.DecideLt(a, b, "order of strides")) return -1;
      if (shapes.DecideLt(b, a, "order of strides")) return 1;
    }
    if (sizes[inner] != sizes[outer] &&
        shapes.DecideLt(sizes[outer], sizes[inner], "order of strides")) {
      return 1;
    }
  }
  return 0;
}

// Dimensions from the innermost to the outermost.
std::vector<size_t> IterationOrder(const DimVector& sizes,
                                   absl::Span<const DimVector> strides,
                                   ShapeEnv& shapes) {
  const size_t rank = sizes.size();
  std::vector<size_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  // An insertion sort, since comparisons may be undecided.
  for (size_t i = 1; i < rank; ++i) {
    size_t at = i;
    for (size_t k = i; k-- > 0;) {
      const int c = CompareDims(order[k], order[at], sizes, strides, shapes);
      if (c > 0) {
        std::swap(order[k], order[at]);
        at = k;
      } else if (c < 0) {
        break;
      }
    }
  }
  return order;
}

DimVector DenseStrides(const DimVector& sizes,
                       const std::vector<size_t>& inner_to_outer) {
  DimVector strides(sizes.size());
  SymExpr stride = 1;
  for (const size_t dim : inner_to_outer) {
    strides[dim] = stride;
    stride = stride * sizes[dim];
  }
  return strides;
}

bool IsDescending(const std::vector<size_t>& order) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != order.size() - 1 - i) return false;
  }
  return true;
}

}  // namespace

absl::Status Malformed(absl::string_view what) {
  return MakeError(ErrorReason::kMalformedGraph, what);
}

bool IsContiguous(const TensorMeta& meta, const ShapeEnv& shapes) {
  if (IsEmpty(meta)) return true;
  absl::InlinedVector<int, 8> order;
  for (int d = meta.rank() - 1; d >= 0; --d) order.push_back(d);
  return IsPacked(meta, order, shapes);
}

bool IsChannelsLast(const TensorMeta& meta, const ShapeEnv& shapes) {
  if (meta.rank() == 4) return IsPacked(meta, {1, 3, 2, 0}, shapes);
  if (meta.rank() == 5) return IsPacked(meta, {1, 4, 3, 2, 0}, shapes);
  return false;
}

bool IsDense(const TensorMeta& meta, ShapeEnv& shapes) {
  if (IsContiguous(meta, shapes)) return true;
  std::vector<int> order;
  for (int d = 0; d < meta.rank(); ++d) {
    if (!meta.sizes[d].Is(1)) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return shapes.Hint(meta.strides[a]) < shapes.Hint(meta.strides[b]);
  });
  return IsPacked(meta, order, shapes);
}

bool SuggestsChannelsLast(const TensorMeta& meta, ShapeEnv& shapes) {
  if (meta.rank() != 4 && meta.rank() != 5) return false;
  if (meta.strides[1].Is(0)) return false;
  absl::InlinedVector<int, 5> order = {1};
  for (int d = meta.rank() - 1; d >= 2; --d) order.push_back(d);
  order.push_back(0);
  SymExpr least = 0;
  for (const int d : order) {
    if (meta.sizes[d].Is(0)) return false;
    if (meta.strides[d] != least &&
        shapes.DecideLt(meta.strides[d], least, "channels last")) {
      return false;
    }
    // Else N111 with equal strides would count.
    if (d == 0 && least == meta.strides[1]) return false;
    least = meta.strides[d];
    if (!meta.sizes[d].Is(1)) least = least * meta.sizes[d];
  }
  return true;
}

absl::StatusOr<DimVector> BroadcastSizes(absl::Span<const DimVector* const> all,
                                         ShapeEnv& shapes) {
  DimVector out;
  for (const DimVector* sizes : all) {
    if (sizes->size() > out.size()) {
      out.insert(out.begin(), sizes->size() - out.size(), SymExpr(1));
    }
    const size_t shift = out.size() - sizes->size();
    for (size_t d = 0; d < sizes->size(); ++d) {
      const SymExpr& size = (*sizes)[d];
      SymExpr& so_far = out[d + shift];
      if (size == so_far || size.Is(1)) continue;
      if (so_far.Is(1)) {
        so_far = size;
        continue;
      }
      // What is 1 goes with any size: no guard on the other one.
      if (shapes.DecideIsOne(size, "broadcast")) continue;
      if (shapes.DecideIsOne(so_far, "broadcast")) {
        so_far = size;
      } else if (shapes.DecideEq(size, so_far, "broadcast")) {
        if (size.is_constant()) so_far = size;
      } else {
        return Malformed(absl::StrCat("sizes ", ToText(*sizes), " and ",
                                      ToText(out), " do not broadcast"));
      }
    }
  }
  return out;
}

DimVector ElementwiseStrides(const DimVector& sizes,
                             absl::Span<const TensorMeta* const> operands,
                             ShapeEnv& shapes) {
  bool same_sizes = true, contiguous = true, channels_last = true;
  for (const TensorMeta* operand : operands) {
    same_sizes = same_sizes && operand->sizes == sizes;
  }
  if (same_sizes) {
    bool dense = true;
    for (const TensorMeta* operand : operands) {
      contiguous = contiguous && IsContiguous(*operand, shapes);
    }
    if (contiguous) return ContiguousStrides(sizes);
    for (const TensorMeta* operand : operands) {
      channels_last = channels_last && IsChannelsLast(*operand, shapes);
      dense = dense && operand->strides == operands[0]->strides &&
              IsDense(*operand, shapes);
    }
    if (channels_last) return ChannelsLastStrides(sizes);
    if (dense && !operands.empty()) return operands[0]->strides;
  }
  std::vector<DimVector> strides;
  strides.reserve(operands.size());
  for (const TensorMeta* operand : operands) {
    strides.push_back(BroadcastStrides(*operand, sizes, shapes));
  }
  return IterationStrides(sizes, strides, shapes);
}

DimVector IterationStrides(const DimVector& sizes,
                           absl::Span<const DimVector> operands,
                           ShapeEnv& shapes) {
  const std::vector<size_t> order = IterationOrder(sizes, operands, shapes);
  if (IsDescending(order)) return ContiguousStrides(sizes);
  return DenseStrides(sizes, order);
}

DimVector LikeStrides(const TensorMeta& like, MemoryFormat format,
                      ShapeEnv& shapes) {
  switch (format) {
    case MemoryFormat::kContiguous:
      return ContiguousStrides(like.sizes);
    case MemoryFormat::kChannelsLast:
    case MemoryFormat::kChannelsLast3d:
      return ChannelsLastStrides(like.sizes);
    case MemoryFormat::kPreserve:
      break;
  }
  if (IsDense(like, shapes)) return like.strides;
  const TensorMeta* operand = &like;
  return ElementwiseStrides(like.sizes, {operand}, shapes);
}

TensorMeta MetaLike(const TensorMeta& like, ShapeEnv& shapes) {
  TensorMeta meta;
  meta.dtype = like.dtype;
  meta.sizes = like.sizes;
  meta.strides = LikeStrides(like, MemoryFormat::kPreserve, shapes);
  return meta;
}

TensorMeta MetaInFormat(DType dtype, DimVector sizes, bool channels_last) {
  TensorMeta meta;
  meta.dtype = dtype;
  meta.strides =
      channels_last ? ChannelsLastStrides(sizes) : ContiguousStrides(sizes);
  meta.sizes = std::move(sizes);
  return meta;
}

namespace {

// Whether a dimension of `size` elements is the next part of a chunk of which
// `covered` elements are divided up already.
bool GoesOn(const SymExpr& covered, const SymExpr& size, const SymExpr& chunk,
            ShapeEnv& shapes) {
  // A divisor by its form is, whatever the sizes: where nothing is left to
  // divide up it is 1, and its stride does not matter.
  const SymExpr divisor = covered * size;
  if (!divisor.Is(0) && FloorDiv(chunk, divisor) * divisor == chunk) {
    return true;
  }
  return shapes.DecideLt(covered, chunk, "view");
}

}  // namespace

std::optional<DimVector> ViewStrides(const TensorMeta& meta,
                                     const DimVector& sizes, ShapeEnv& shapes) {
  if (IsEmpty(meta)) return ContiguousStrides(sizes);
  if (meta.rank() == 0) return DimVector(sizes.size(), SymExpr(1));
  DimVector strides(sizes.size(), SymExpr(1));
  int view = static_cast<int>(sizes.size()) - 1;
  // A chunk is a run of dimensions that lie in memory as one.
  SymExpr base_stride = meta.strides.back();
  SymExpr chunk = 1, covered = 1;
  for (int d = meta.rank() - 1; d >= 0; --d) {
    chunk = chunk * meta.sizes[d];
    const bool ends_chunk =
        d == 0 || (!meta.sizes[d - 1].Is(1) &&
                   !shapes.KnownEq(meta.strides[d - 1], chunk * base_stride));
    if (!ends_chunk) continue;
    while (view >= 0 && (sizes[view].Is(1) ||
                         (covered != chunk &&
                          GoesOn(covered, sizes[view], chunk, shapes)))) {
      strides[view] = covered * base_stride;
      covered = covered * sizes[view];
      --view;
    }
    if (!shapes.DecideEq(covered, chunk, "view")) return std::nullopt;
    if (d > 0) {
      base_stride = meta.strides[d - 1];
      chunk = 1;
      covered = 1;
    }
  }
  if (view != -1) return std::nullopt;
  return strides;
}

absl::StatusOr<int> WrapDim(int64_t dim, int rank) {
  const int64_t limit = std::max(rank, 1);
  if (dim < -limit || dim >= limit) {
    return Malformed(absl::StrCat("dim ", dim, ", expected in [", -limit, ", ",
                                  limit - 1, "]"));
  }
  return static_cast<int>(dim < 0 ? dim + limit : dim);
}

absl::StatusOr<std::vector<bool>> DimMask(const std::vector<int64_t>& dims,
                                          int rank) {
  std::vector<bool> mask(std::max(rank, 1), dims.empty());
  for (const int64_t dim : dims) {
    ASSIGN_OR_RETURN(const int wrapped, WrapDim(dim, rank));
    if (mask[wrapped]) {
      return Malformed(absl::StrCat("dim ", dim, " stands twice"));
    }
    mask[wrapped] = true;
  }
  mask.resize(rank);
  return mask;
}

absl::StatusOr<DimVector> InferSize(DimVector sizes, const DimVector& from,
                                    ShapeEnv& shapes) {
  int open = -1;
  SymExpr known = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].Is(-1)) {
      if (open >= 0) return Malformed("two sizes are -1");
      open = static_cast<int>(i);
    } else {
      known = known * sizes[i];
    }
  }
  const SymExpr numel = Product(from);
  if (open >= 0) {
    sizes[open] = known.Is(0) ? SymExpr(0) : FloorDiv(numel, known);
    known = known * sizes[open];
  }
  if (known != numel && !shapes.DecideEq(known, numel, "view")) {
    return Malformed(absl::StrCat("sizes ", ToText(sizes),
                                  " do not hold the elements of ",
                                  ToText(from)));
  }
  return sizes;
}

bool SameSizes(const DimVector& a, const DimVector& b, ShapeEnv& shapes) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && !shapes.DecideEq(a[i], b[i], "equal sizes")) {
      return false;
    }
  }
  return true;
}

}  // namespace kiln
