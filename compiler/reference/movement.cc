// Elements moved to other places: joined, padded, repeated, turned round.

#include <algorithm>
#include <functional>
#include <utility>

#include "compiler/reference/reference_table.h"
#include "compiler/reference/rows.h"

namespace kiln {
namespace {

// y[k] = x[from].
void Move(const Elements& x, int64_t from, Elements& y, int64_t to) {
  if (y.floating) {
    y.f[to] = x.F(from);
  } else {
    y.i[to] = x.I(from);
  }
}

Elements EmptyLikeResult(RefCall& call) {
  const RefMeta& due = call.result(0);
  return IsFloat(due.dtype) ? Elements::Floats(due.sizes)
                            : Elements::Ints(due.sizes);
}

// Each element of the result from the place in "self" that `source` names.
RefResults Gathered(RefCall& call,
                    const std::function<Sizes(const Sizes&)>& source) {
  const Elements x = call.Load("self");
  Elements y = EmptyLikeResult(call);
  int64_t to = 0;
  ForEachIndex(y.sizes, [&](const Sizes& index) {
    Move(x, FlatIndex(x.sizes, source(index)), y, to++);
  });
  return {call.Make(0, y)};
}

RefTensor Joined(RefCall& call, const std::vector<Elements>& pieces,
                 int64_t dim) {
  Elements y = EmptyLikeResult(call);
  int64_t start = 0;
  for (const Elements& piece : pieces) {
    int64_t from = 0;
    ForEachIndex(piece.sizes, [&](const Sizes& index) {
      Sizes at = index;
      at[dim] += start;
      Move(piece, from++, y, FlatIndex(y.sizes, at));
    });
    start += piece.sizes[dim];
  }
  return call.Make(0, y);
}

RefResults Cat(RefCall& call) {
  std::vector<Elements> pieces;
  for (const RefTensor& t : call.Tensors("tensors")) {
    // An empty vector joins anything, for old programs' sake.
    if (t.sizes == Sizes{0}) continue;
    pieces.push_back(Load(t));
  }
  if (pieces.empty()) return {call.Make(0, EmptyLikeResult(call))};
  const int64_t rank = static_cast<int64_t>(pieces[0].sizes.size());
  return {Joined(call, pieces, WrapDim(call.Int("dim"), rank))};
}

RefResults Stack(RefCall& call) {
  std::vector<Elements> pieces;
  int64_t dim = 0;
  for (const RefTensor& t : call.Tensors("tensors")) {
    Elements piece = Load(t);
    dim = WrapDim(call.Int("dim"), t.rank() + 1);
    piece.sizes.insert(piece.sizes.begin() + dim, 1);
    pieces.push_back(std::move(piece));
  }
  return {Joined(call, pieces, dim)};
}

RefResults ConstantPad(RefCall& call) {
  const Elements x = call.Load("self");
  const Sizes pad = call.Ints("pad");
  const RefNumber value =
      call.Has("value") ? call.Number("value") : RefNumber{};
  Elements y = EmptyLikeResult(call);
  std::fill(y.f.begin(), y.f.end(), value.F());
  std::fill(y.i.begin(), y.i.end(),
            value.floating ? static_cast<int64_t>(value.f) : value.i);
  const size_t rank = x.sizes.size();
  int64_t from = 0;
  ForEachIndex(x.sizes, [&](const Sizes& index) {
    Sizes at = index;
    bool inside = true;
    for (size_t p = 0; 2 * p < pad.size(); ++p) {
      const size_t d = rank - 1 - p;
      at[d] += pad[2 * p];  // before; negative: cropped
      inside = inside && at[d] >= 0 && at[d] < y.sizes[d];
    }
    if (inside) Move(x, from, y, FlatIndex(y.sizes, at));
    ++from;
  });
  return {call.Make(0, y)};
}

// The last dims padded by what `source(i, size)` says stands at place i.
template <auto source>
RefResults EdgePad(RefCall& call) {
  const RefTensor self = call.Tensor("self");
  const Sizes pad = call.Ints("padding");
  const size_t rank = self.sizes.size();
  return Gathered(call, [&](const Sizes& index) {
    Sizes at = index;
    for (size_t p = 0; 2 * p < pad.size(); ++p) {
      const size_t d = rank - 1 - p;
      at[d] = source(at[d] - pad[2 * p], self.sizes[d]);
    }
    return at;
  });
}

int64_t Reflected(int64_t i, int64_t size) {
  if (i < 0) i = -i;
  return i >= size ? 2 * (size - 1) - i : i;
}
int64_t Replicated(int64_t i, int64_t size) {
  return std::clamp<int64_t>(i, 0, size - 1);
}

RefResults Flip(RefCall& call) {
  const RefTensor self = call.Tensor("self");
  std::vector<bool> flipped(self.rank(), false);
  for (int64_t dim : call.Ints("dims")) {
    if (self.rank() > 0) flipped[WrapDim(dim, self.rank())] = true;
  }
  return Gathered(call, [&](const Sizes& index) {
    Sizes at = index;
    for (size_t d = 0; d < at.size(); ++d) {
      if (flipped[d]) at[d] = self.sizes[d] - 1 - at[d];
    }
    return at;
  });
}

RefResults Roll(RefCall& call) {
  const RefTensor self = call.Tensor("self");
  const Sizes shifts = call.Ints("shifts");
  const Sizes dims = call.Ints("dims");
  const int64_t count = self.numel();
  return Gathered(call, [&](const Sizes& index) {
    Sizes at = index;
    if (dims.empty()) {
      int64_t flat = FlatIndex(self.sizes, index) - shifts[0];
      flat = ((flat % count) + count) % count;
      for (size_t d = at.size(); d-- > 0;) {
        at[d] = flat % self.sizes[d];
        flat /= self.sizes[d];
      }
      return at;
    }
    for (size_t k = 0; k < dims.size(); ++k) {
      const int64_t d = WrapDim(dims[k], self.rank());
      const int64_t size = self.sizes[d];
      at[d] = (((at[d] - shifts[k]) % size) + size) % size;
    }
    return at;
  });
}

RefResults Repeat(RefCall& call) {
  const RefTensor self = call.Tensor("self");
  return Gathered(call, [&](const Sizes& index) {
    Sizes at(index.end() - self.rank(), index.end());
    for (size_t d = 0; d < at.size(); ++d) at[d] %= self.sizes[d];
    return at;
  });
}

template <bool lower>
RefResults Triangle(RefCall& call) {
  Elements x = call.Load("self");
  const int64_t offset = call.Int("diagonal");
  const size_t rank = x.sizes.size();
  int64_t k = 0;
  ForEachIndex(x.sizes, [&](const Sizes& index) {
    const int64_t above = index[rank - 1] - index[rank - 2];
    if (lower ? above > offset : above < offset) {
      if (x.floating) {
        x.f[k] = 0;
      } else {
        x.i[k] = 0;
      }
    }
    ++k;
  });
  return {call.Make(0, x)};
}

// A dense copy of "self", whose views can be written.
RefTensor CopyOfSelf(RefCall& call) {
  const RefTensor self = call.Tensor("self");
  return self.WithLayout(RowMajorStrides(self.sizes), 0);
}

RefResults SliceScatter(RefCall& call) {
  const RefTensor copy = CopyOfSelf(call);
  RefTensor part = copy;
  const int64_t dim = WrapDim(call.Int("dim"), copy.rank());
  const int64_t size = copy.sizes[dim], step = call.Int("step");
  int64_t start = call.Has("start") ? call.Int("start") : 0;
  int64_t end = call.Has("end") ? call.Int("end") : size;
  if (start < 0) start += size;
  if (end < 0) end += size;
  start = std::clamp<int64_t>(start, 0, size);
  end = std::clamp<int64_t>(end, start, size);
  part.offset += start * copy.strides[dim];
  part.sizes[dim] = (end - start + step - 1) / step;
  part.strides[dim] *= step;
  Store(call.Load("src").Broadcast(part.sizes), part);
  return {call.Make(0, Load(copy))};
}

RefResults SelectScatter(RefCall& call) {
  const RefTensor copy = CopyOfSelf(call);
  RefTensor part = copy;
  const int64_t dim = WrapDim(call.Int("dim"), copy.rank());
  int64_t index = call.Int("index");
  if (index < 0) index += copy.sizes[dim];
  part.offset += index * copy.strides[dim];
  part.sizes.erase(part.sizes.begin() + dim);
  part.strides.erase(part.strides.begin() + dim);
  Store(call.Load("src"), part);
  return {call.Make(0, Load(copy))};
}

RefResults AsStridedScatter(RefCall& call) {
  // Over storage: the copy keeps self's layout.
  const RefTensor self = call.Tensor("self");
  RefTensor copy = self;
  copy.storage = std::make_shared<std::string>(*self.storage);
  RefTensor part = copy;
  part.sizes = call.Ints("size");
  part.strides = call.Ints("stride");
  if (call.Has("storage_offset")) part.offset = call.Int("storage_offset");
  Store(call.Load("src"), part);
  return {call.Make(0, Load(copy))};
}

// Zeros of "input_sizes" with the gradient where the slice was taken.
RefResults SliceBackward(RefCall& call) {
  const Sizes sizes = call.Ints("input_sizes");
  RefTensor whole = RefTensor::Zeros(call.result(0).dtype, sizes);
  const int64_t dim = WrapDim(call.Int("dim"), whole.rank());
  int64_t start = call.Int("start");
  if (start < 0) start += sizes[dim];
  RefTensor part = whole;
  part.offset = std::clamp<int64_t>(start, 0, sizes[dim]) * whole.strides[dim];
  part.sizes = call.Tensor("grad_output").sizes;
  part.strides[dim] *= call.Int("step");
  Store(call.Load("grad_output"), part);
  return {call.Make(0, Load(whole))};
}

RefResults SelectBackward(RefCall& call) {
  const Sizes sizes = call.Ints("input_sizes");
  RefTensor whole = RefTensor::Zeros(call.result(0).dtype, sizes);
  const int64_t dim = WrapDim(call.Int("dim"), whole.rank());
  int64_t index = call.Int("index");
  if (index < 0) index += sizes[dim];
  RefTensor part = whole;
  part.offset = index * whole.strides[dim];
  part.sizes.erase(part.sizes.begin() + dim);
  part.strides.erase(part.strides.begin() + dim);
  Store(call.Load("grad_output"), part);
  return {call.Make(0, Load(whole))};
}

// The diagonal of `whole` that the arguments name, as a view of it.
RefTensor DiagonalOf(RefCall& call, RefTensor whole) {
  const int64_t a = WrapDim(call.Int("dim1"), whole.rank());
  const int64_t b = WrapDim(call.Int("dim2"), whole.rank());
  const int64_t shift = call.Int("offset");
  const int64_t length = std::max<int64_t>(
      0, shift >= 0 ? std::min(whole.sizes[a], whole.sizes[b] - shift)
                    : std::min(whole.sizes[a] + shift, whole.sizes[b]));
  if (length > 0) {
    whole.offset +=
        shift >= 0 ? shift * whole.strides[b] : -shift * whole.strides[a];
  }
  const int64_t stride = whole.strides[a] + whole.strides[b];
  for (int64_t d : {std::max(a, b), std::min(a, b)}) {
    whole.sizes.erase(whole.sizes.begin() + d);
    whole.strides.erase(whole.strides.begin() + d);
  }
  whole.sizes.push_back(length);
  whole.strides.push_back(stride);
  return whole;
}

RefResults DiagonalScatter(RefCall& call) {
  const RefTensor copy = CopyOfSelf(call);
  RefTensor part = DiagonalOf(call, copy);
  Store(call.Load("src"), part);
  return {call.Make(0, Load(copy))};
}

RefResults DiagonalBackward(RefCall& call) {
  const RefTensor whole =
      RefTensor::Zeros(call.result(0).dtype, call.Ints("input_sizes"));
  RefTensor part = DiagonalOf(call, whole);
  Store(call.Load("grad_output"), part);
  return {call.Make(0, Load(whole))};
}

constexpr ReferenceRow kRows[] = {
    {"aten.diagonal_scatter.default", DiagonalScatter},
    {"aten.diagonal_backward.default", DiagonalBackward},
    {"aten.cat.default", Cat},
    {"aten.stack.default", Stack},
    {"aten.constant_pad_nd.default", ConstantPad},
    {"aten.reflection_pad1d.default", EdgePad<Reflected>},
    {"aten.reflection_pad2d.default", EdgePad<Reflected>},
    {"aten.reflection_pad3d.default", EdgePad<Reflected>},
    {"aten.replication_pad1d.default", EdgePad<Replicated>},
    {"aten.replication_pad2d.default", EdgePad<Replicated>},
    {"aten.replication_pad3d.default", EdgePad<Replicated>},
    {"aten.flip.default", Flip},
    {"aten.roll.default", Roll},
    {"aten.repeat.default", Repeat},
    {"aten.tril.default", Triangle<true>},
    {"aten.triu.default", Triangle<false>},
    {"aten.slice_scatter.default", SliceScatter},
    {"aten.select_scatter.default", SelectScatter},
    {"aten.as_strided_scatter.default", AsStridedScatter},
    {"aten.slice_backward.default", SliceBackward},
    {"aten.select_backward.default", SelectBackward},
};

}  // namespace

absl::Span<const ReferenceRow> MovementReferences() { return kRows; }

}  // namespace kiln
