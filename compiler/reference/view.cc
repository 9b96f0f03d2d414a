// Operators whose results alias their input: other sizes, strides and offset
// on the same storage.

#include <algorithm>
#include <utility>

#include "compiler/reference/reference_table.h"
#include "compiler/reference/rows.h"

namespace kiln {
namespace {

RefResults Alias(RefCall& call) { return {call.Tensor("self")}; }

// The sizes asked for, -1 filled in.
Sizes FillIn(Sizes sizes, int64_t count) {
  int64_t known = 1;
  for (int64_t s : sizes) known *= s == -1 ? 1 : s;
  for (int64_t& s : sizes) {
    if (s == -1) s = known == 0 ? 0 : count / known;
  }
  return sizes;
}

// Strides that show `t` under `sizes` without moving an element. Chunks of
// dims of `t` that follow one another in memory are cut up anew. False when a
// new dim would straddle two chunks.
bool StridesForView(const RefTensor& t, const Sizes& sizes, Sizes& strides) {
  strides.assign(sizes.size(), 1);
  if (t.numel() == 0) {
    strides = sizes == t.sizes ? t.strides : RowMajorStrides(sizes);
    return true;
  }
  int64_t to = static_cast<int64_t>(sizes.size()) - 1;
  int64_t chunk_stride = t.rank() > 0 ? t.strides.back() : 1;
  int64_t chunk = 1;
  for (int64_t d = t.rank() - 1; d >= 0; --d) {
    chunk *= t.sizes[d];
    const bool chunk_ends =
        d == 0 ||
        (t.sizes[d - 1] != 1 && t.strides[d - 1] != chunk * chunk_stride);
    if (!chunk_ends) continue;
    int64_t taken = 1;
    for (; to >= 0 && (taken < chunk || sizes[to] == 1); --to) {
      strides[to] = taken * chunk_stride;
      taken *= sizes[to];
    }
    if (taken != chunk) return false;
    if (d > 0) {
      chunk = 1;
      chunk_stride = t.strides[d - 1];
    }
  }
  return true;
}

RefTensor Dense(const RefTensor& t) {
  return t.WithLayout(RowMajorStrides(t.sizes), 0);
}

// A view where one is possible, else a copy: `reshape`. An operator that must
// view and cannot has been refused by inference.
RefTensor Reshape(RefTensor t, const Sizes& asked) {
  const Sizes sizes = FillIn(asked, t.numel());
  Sizes strides;
  if (!StridesForView(t, sizes, strides)) {
    t = Dense(t);
    strides = RowMajorStrides(sizes);
  }
  t.sizes = sizes;
  t.strides = strides;
  return t;
}

RefResults View(RefCall& call) {
  const absl::string_view name = call.Has("size") ? "size" : "shape";
  return {Reshape(call.Tensor("self"), call.Ints(name))};
}

RefResults ViewDType(RefCall& call) {
  RefTensor t = call.Tensor("self");
  t.dtype = call.result(0).dtype;
  return {t};
}

RefResults Permute(RefCall& call) {
  const RefTensor t = call.Tensor("self");
  RefTensor y = t;
  const Sizes dims = call.Ints("dims");
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t from = WrapDim(dims[d], t.rank());
    y.sizes[d] = t.sizes[from];
    y.strides[d] = t.strides[from];
  }
  return {y};
}

RefTensor Swapped(RefTensor t, int64_t a, int64_t b) {
  if (t.rank() == 0) return t;
  a = WrapDim(a, t.rank());
  b = WrapDim(b, t.rank());
  std::swap(t.sizes[a], t.sizes[b]);
  std::swap(t.strides[a], t.strides[b]);
  return t;
}

RefResults Transpose(RefCall& call) {
  return {Swapped(call.Tensor("self"), call.Int("dim0"), call.Int("dim1"))};
}

RefResults MatrixTranspose(RefCall& call) {
  const RefTensor t = call.Tensor("self");
  return {t.rank() < 2 ? t : Swapped(t, 0, 1)};
}

RefResults Expand(RefCall& call) {
  const RefTensor t = call.Tensor("self");
  RefTensor y = t;
  y.sizes = call.Ints("size");
  const size_t added = y.sizes.size() - t.sizes.size();
  y.strides.assign(y.sizes.size(), 0);
  for (size_t d = 0; d < t.sizes.size(); ++d) {
    int64_t& size = y.sizes[added + d];
    if (size == -1) size = t.sizes[d];
    if (t.sizes[d] == size) y.strides[added + d] = t.strides[d];
  }
  return {y};
}

RefResults Unsqueeze(RefCall& call) {
  RefTensor t = call.Tensor("self");
  const int64_t dim = WrapDim(call.Int("dim"), t.rank() + 1);
  const int64_t stride = dim == t.rank() ? 1 : t.sizes[dim] * t.strides[dim];
  t.sizes.insert(t.sizes.begin() + dim, 1);
  t.strides.insert(t.strides.begin() + dim, stride);
  return {t};
}

// Drops the marked dims that have size 1.
RefResults Squeezed(const RefTensor& t, const std::vector<bool>& marked) {
  RefTensor y = t;
  y.sizes.clear();
  y.strides.clear();
  for (int d = 0; d < t.rank(); ++d) {
    if (marked[d] && t.sizes[d] == 1) continue;
    y.sizes.push_back(t.sizes[d]);
    y.strides.push_back(t.strides[d]);
  }
  return {y};
}

RefResults Squeeze(RefCall& call) {
  const RefTensor t = call.Tensor("self");
  return Squeezed(t, std::vector<bool>(t.rank(), true));
}

RefResults SqueezeDims(RefCall& call) {
  const RefTensor t = call.Tensor("self");
  std::vector<bool> marked(t.rank(), false);
  for (int64_t dim : call.Ints("dim")) {
    if (t.rank() > 0) marked[WrapDim(dim, t.rank())] = true;
  }
  return Squeezed(t, marked);
}

RefTensor SelectAt(const RefTensor& t, int64_t dim, int64_t index) {
  RefTensor y = t;
  dim = WrapDim(dim, t.rank());
  if (index < 0) index += t.sizes[dim];
  y.offset += index * t.strides[dim];
  y.sizes.erase(y.sizes.begin() + dim);
  y.strides.erase(y.strides.begin() + dim);
  return y;
}

RefResults Select(RefCall& call) {
  return {SelectAt(call.Tensor("self"), call.Int("dim"), call.Int("index"))};
}

RefTensor SliceOf(const RefTensor& t, int64_t dim, int64_t start, int64_t end,
                  int64_t step) {
  RefTensor y = t;
  dim = WrapDim(dim, t.rank());
  const int64_t size = t.sizes[dim];
  if (start < 0) start += size;
  if (end < 0) end += size;
  start = std::clamp<int64_t>(start, 0, size);
  end = std::clamp<int64_t>(end, start, size);
  y.offset += start * t.strides[dim];
  y.sizes[dim] = (end - start + step - 1) / step;
  y.strides[dim] *= step;
  return y;
}

RefResults Slice(RefCall& call) {
  const RefTensor t = call.Tensor("self");
  const int64_t dim = WrapDim(call.Int("dim"), t.rank());
  const int64_t start = call.Has("start") ? call.Int("start") : 0;
  const int64_t end = call.Has("end") ? call.Int("end") : t.sizes[dim];
  return {SliceOf(t, dim, start, end, call.Int("step"))};
}

RefResults Narrow(RefCall& call) {
  const RefTensor t = call.Tensor("self");
  int64_t start = call.Int("start");
  const int64_t dim = WrapDim(call.Int("dim"), t.rank());
  if (start < 0) start += t.sizes[dim];
  return {SliceOf(t, dim, start, start + call.Int("length"), 1)};
}

RefResults PiecesOf(const RefTensor& t, int64_t dim, const Sizes& lengths) {
  RefResults pieces;
  int64_t start = 0;
  for (int64_t length : lengths) {
    pieces.push_back(SliceOf(t, dim, start, start + length, 1));
    start += length;
  }
  return pieces;
}

RefResults Split(RefCall& call) {
  const RefTensor t = call.Tensor("self");
  const int64_t length = call.Int("split_size");
  const int64_t size = t.sizes[WrapDim(call.Int("dim"), t.rank())];
  Sizes lengths;
  for (int64_t at = 0; at < size || at == 0; at += length) {
    lengths.push_back(std::min(length, size - at));
    if (length == 0) break;
  }
  return PiecesOf(t, call.Int("dim"), lengths);
}

RefResults SplitWithSizes(RefCall& call) {
  return PiecesOf(call.Tensor("self"), call.Int("dim"),
                  call.Ints("split_sizes"));
}

// `chunks` pieces of equal size but for the last.
RefResults Chunk(RefCall& call) {
  const RefTensor t = call.Tensor("self");
  const int64_t chunks = call.Int("chunks");
  const int64_t size = t.sizes[WrapDim(call.Int("dim"), t.rank())];
  const int64_t length = (size + chunks - 1) / chunks;
  Sizes lengths;
  for (int64_t at = 0; at < size; at += length) {
    lengths.push_back(std::min(length, size - at));
  }
  return PiecesOf(t, call.Int("dim"), lengths);
}

RefResults Unbind(RefCall& call) {
  const RefTensor t = call.Tensor("self");
  const int64_t dim = WrapDim(call.Int("dim"), t.rank());
  RefResults pieces;
  for (int64_t k = 0; k < t.sizes[dim]; ++k) {
    pieces.push_back(SelectAt(t, dim, k));
  }
  return pieces;
}

RefResults AsStrided(RefCall& call) {
  RefTensor t = call.Tensor("self");
  t.sizes = call.Ints("size");
  t.strides = call.Ints("stride");
  if (call.Has("storage_offset")) t.offset = call.Int("storage_offset");
  return {t};
}

RefResults Diagonal(RefCall& call) {
  RefTensor t = call.Tensor("self");
  const int64_t a = WrapDim(call.Int("dim1"), t.rank());
  const int64_t b = WrapDim(call.Int("dim2"), t.rank());
  const int64_t shift = call.Int("offset");
  const int64_t length = std::max<int64_t>(
      0, shift >= 0 ? std::min(t.sizes[a], t.sizes[b] - shift)
                    : std::min(t.sizes[a] + shift, t.sizes[b]));
  if (length > 0) {
    t.offset += shift >= 0 ? shift * t.strides[b] : -shift * t.strides[a];
  }
  const int64_t stride = t.strides[a] + t.strides[b];
  for (int64_t d : {std::max(a, b), std::min(a, b)}) {
    t.sizes.erase(t.sizes.begin() + d);
    t.strides.erase(t.strides.begin() + d);
  }
  t.sizes.push_back(length);
  t.strides.push_back(stride);
  return {t};
}

// Windows of `size` elements, `step` apart, as a new last dim.
RefResults Unfold(RefCall& call) {
  RefTensor t = call.Tensor("self");
  const int64_t size = call.Int("size"), step = call.Int("step");
  if (t.rank() == 0) {
    t.sizes = {size};
    t.strides = {1};
    return {t};
  }
  const int64_t dim = WrapDim(call.Int("dimension"), t.rank());
  t.sizes.push_back(size);
  t.strides.push_back(t.strides[dim]);
  t.sizes[dim] = (t.sizes[dim] - size) / step + 1;
  t.strides[dim] *= step;
  return {t};
}

// The view, copied: the "_copy" forms.
template <ReferenceFn view>
RefResults Copied(RefCall& call) {
  RefResults pieces = view(call);
  for (size_t i = 0; i < pieces.size(); ++i) {
    pieces[i] = call.Make(static_cast<int>(i), Load(pieces[i]));
  }
  return pieces;
}

constexpr ReferenceRow kRows[] = {
    {"aten.alias.default", Alias},
    {"aten.detach.default", Alias},
    {"aten.view.default", View},
    {"aten._unsafe_view.default", View},
    {"aten.reshape.default", View},
    {"aten.view.dtype", ViewDType},
    {"aten.permute.default", Permute},
    {"aten.transpose.int", Transpose},
    {"aten.t.default", MatrixTranspose},
    {"aten.expand.default", Expand},
    {"aten.unsqueeze.default", Unsqueeze},
    {"aten.squeeze.default", Squeeze},
    {"aten.squeeze.dim", SqueezeDims},
    {"aten.squeeze.dims", SqueezeDims},
    {"aten.select.int", Select},
    {"aten.slice.Tensor", Slice},
    {"aten.narrow.default", Narrow},
    {"aten.chunk.default", Chunk},
    {"aten.split.Tensor", Split},
    {"aten.split_with_sizes.default", SplitWithSizes},
    {"aten.unsafe_split.Tensor", Copied<Split>},
    {"aten.unsafe_split_with_sizes.default", Copied<SplitWithSizes>},
    {"aten.unbind.int", Unbind},
    {"aten.as_strided.default", AsStrided},
    {"aten.diagonal.default", Diagonal},
    {"aten.unfold.default", Unfold},
    {"aten.view_copy.default", Copied<View>},
    {"aten.permute_copy.default", Copied<Permute>},
    {"aten.transpose_copy.int", Copied<Transpose>},
    {"aten.t_copy.default", Copied<MatrixTranspose>},
    {"aten.expand_copy.default", Copied<Expand>},
    {"aten.unsqueeze_copy.default", Copied<Unsqueeze>},
    {"aten.squeeze_copy.default", Copied<Squeeze>},
    {"aten.squeeze_copy.dim", Copied<SqueezeDims>},
    {"aten.squeeze_copy.dims", Copied<SqueezeDims>},
    {"aten.select_copy.int", Copied<Select>},
    {"aten.slice_copy.Tensor", Copied<Slice>},
    {"aten.narrow_copy.default", Copied<Narrow>},
    {"aten.split_with_sizes_copy.default", Copied<SplitWithSizes>},
    {"aten.unbind_copy.int", Copied<Unbind>},
    {"aten.as_strided_copy.default", Copied<AsStrided>},
    {"aten.diagonal_copy.default", Copied<Diagonal>},
    {"aten.unfold_copy.default", Copied<Unfold>},
};

}  // namespace

absl::Span<const ReferenceRow> ViewReferences() { return kRows; }

}  // namespace kiln
