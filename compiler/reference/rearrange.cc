// Elements brought to other places by rules of their own, one at a time.

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "compiler/reference/reference_table.h"
#include "compiler/reference/rows.h"

namespace kiln {
namespace {

Elements EmptyResult(RefCall& call) {
  const RefMeta& due = call.result(0);
  return IsFloat(due.dtype) ? Elements::Floats(due.sizes)
                            : Elements::Ints(due.sizes);
}

void Copy(const Elements& x, int64_t from, Elements& y, int64_t to) {
  if (y.floating) {
    y.f[to] = x.F(from);
  } else {
    y.i[to] = x.I(from);
  }
}

void Add(const Elements& x, int64_t from, Elements& y, int64_t to) {
  if (y.floating) {
    y.f[to] += x.F(from);
  } else {
    y.i[to] += x.I(from);
  }
}

// Each element of the result from the place in "self" that `source` names.
RefResults Moved(RefCall& call,
                 const std::function<Sizes(const Sizes&)>& source) {
  const Elements x = call.Load("self");
  Elements y = EmptyResult(call);
  int64_t to = 0;
  ForEachIndex(y.sizes, [&](const Sizes& at) {
    Copy(x, FlatIndex(x.sizes, source(at)), y, to++);
  });
  return {call.Make(0, y)};
}

// Where element `at` stands along the diagonal that the call names; none off
// it. The position is appended to the other coordinates.
std::optional<Sizes> OnDiagonal(RefCall& call, const Sizes& at) {
  const int64_t a = WrapDim(call.Int("dim1"), at.size());
  const int64_t b = WrapDim(call.Int("dim2"), at.size());
  const int64_t offset = call.Int("offset");
  if (at[b] - at[a] != offset) return std::nullopt;
  Sizes place;
  for (int64_t d = 0; d < static_cast<int64_t>(at.size()); ++d) {
    if (d != a && d != b) place.push_back(at[d]);
  }
  place.push_back(offset >= 0 ? at[a] : at[b]);
  return place;
}

// `source` along the diagonal of `y`.
RefResults OverDiagonal(RefCall& call, absl::string_view source, Elements y) {
  const Elements x = call.Load(source);
  int64_t to = 0;
  ForEachIndex(y.sizes, [&](const Sizes& at) {
    const std::optional<Sizes> place = OnDiagonal(call, at);
    if (place.has_value()) Copy(x, FlatIndex(x.sizes, *place), y, to);
    ++to;
  });
  return {call.Make(0, y)};
}
RefResults DiagonalScatter(RefCall& call) {
  return OverDiagonal(call, "src", call.Load("self"));
}
RefResults DiagonalBackward(RefCall& call) {
  return OverDiagonal(call, "grad_output", EmptyResult(call));
}
RefResults DiagEmbed(RefCall& call) {
  return OverDiagonal(call, "self", EmptyResult(call));
}

double Combined(const std::string& reduce, double a, double b) {
  if (reduce == "prod") return a * b;
  if (reduce == "mean") return a + b;
  if (std::isnan(a) || std::isnan(b)) return NAN;
  return reduce == "amax" ? std::max(a, b) : std::min(a, b);
}

// Slices of "source" combined into those of "self" that the index names.
RefResults IndexReduce(RefCall& call) {
  const Elements self = call.Load("self"), index = call.Load("index"),
                 source = call.Load("source");
  const std::string reduce = call.String("reduce");
  const int64_t dim = WrapDim(call.Int("dim"), self.sizes.size());
  const bool include = call.Bool("include_self");
  Elements y = self;
  std::vector<int64_t> terms(self.count(), include ? 1 : 0);
  int64_t from = 0;
  ForEachIndex(source.sizes, [&](const Sizes& at) {
    Sizes place = at;
    place.resize(self.sizes.size());
    if (!place.empty()) place[dim] = index.I(at.empty() ? 0 : at[dim]);
    const int64_t to = FlatIndex(self.sizes, place);
    const bool first = terms[to]++ == 0;
    const double v = source.F(from);
    const double all = first ? v : Combined(reduce, y.F(to), v);
    if (y.floating) {
      y.f[to] = all;
    } else {
      y.i[to] = static_cast<int64_t>(all);
    }
    ++from;
  });
  for (int64_t k = 0; reduce == "mean" && k < y.count(); ++k) {
    const auto count = static_cast<double>(std::max<int64_t>(terms[k], 1));
    if (y.floating) {
      y.f[k] /= count;
    } else {
      y.i[k] =
          static_cast<int64_t>(std::floor(static_cast<double>(y.i[k]) / count));
    }
  }
  return {call.Make(0, y)};
}

RefResults MaxUnpool(RefCall& call) {
  const Elements x = call.Load("self"), places = call.Load("indices");
  Elements y = EmptyResult(call);
  const size_t dims = call.Ints("output_size").size();
  int64_t plane = 1, window = 1;
  for (size_t d = 0; d < dims; ++d) {
    plane *= y.sizes[y.sizes.size() - 1 - d];
    window *= x.sizes[x.sizes.size() - 1 - d];
  }
  for (int64_t k = 0; k < x.count(); ++k) {
    Copy(x, k, y, k / window * plane + places.I(k));
  }
  return {call.Make(0, y)};
}

int64_t Wrapped(int64_t place, int64_t count) {
  return place < 0 ? place + count : place;
}

RefResults Take(RefCall& call) {
  const Elements x = call.Load("self"), index = call.Load("index");
  Elements y = EmptyResult(call);
  for (int64_t k = 0; k < y.count(); ++k) {
    Copy(x, Wrapped(index.I(k), x.count()), y, k);
  }
  return {call.Make(0, y)};
}

RefResults Put(RefCall& call) {
  const Elements index = call.Load("index"), source = call.Load("source");
  Elements y = call.Load("self");
  const bool sum = call.Bool("accumulate");
  for (int64_t k = 0; k < index.count(); ++k) {
    (sum ? Add : Copy)(source, k, y, Wrapped(index.I(k), y.count()));
  }
  return {call.Make(0, y)};
}

// The gradient of a pad goes back to where each element was read.
template <bool kReflect>
RefResults PadBackward(RefCall& call) {
  const Elements g = call.Load("grad_output");
  const Sizes padding = call.Ints("padding");
  Elements y = EmptyResult(call);
  int64_t from = 0;
  ForEachIndex(g.sizes, [&](const Sizes& at) {
    Sizes to = at;
    for (size_t k = 0; 2 * k + 1 < padding.size(); ++k) {
      const size_t d = at.size() - 1 - k;
      const int64_t last = y.sizes[d] - 1;
      int64_t p = at[d] - padding[2 * k];
      p = kReflect ? last - std::abs(last - std::abs(p))
                   : std::clamp<int64_t>(p, 0, last);
      to[d] = p;
    }
    Add(g, from++, y, FlatIndex(y.sizes, to));
  });
  return {call.Make(0, y)};
}

RefResults PixelShuffle(RefCall& call) {
  const int64_t r = call.Int("upscale_factor");
  return Moved(call, [&](const Sizes& at) {
    Sizes from = at;
    const size_t c = at.size() - 3;
    from[c] = (at[c] * r + at[c + 1] % r) * r + at[c + 2] % r;
    from[c + 1] = at[c + 1] / r;
    from[c + 2] = at[c + 2] / r;
    return from;
  });
}

RefResults PixelUnshuffle(RefCall& call) {
  const int64_t r = call.Int("downscale_factor");
  return Moved(call, [&](const Sizes& at) {
    Sizes from = at;
    const size_t c = at.size() - 3;
    from[c] = at[c] / (r * r);
    from[c + 1] = at[c + 1] * r + at[c] / r % r;
    from[c + 2] = at[c + 2] * r + at[c] % r;
    return from;
  });
}

RefResults ChannelShuffle(RefCall& call) {
  const int64_t groups = call.Int("groups");
  const int64_t each = call.Tensor("self").sizes[1] / groups;
  return Moved(call, [&](const Sizes& at) {
    Sizes from = at;
    from[1] = at[1] % groups * each + at[1] / groups;
    return from;
  });
}

RefResults Turn(RefCall& call) {
  const int64_t turns = ((call.Int("k") % 4) + 4) % 4;
  const Sizes sizes = call.Tensor("self").sizes, dims = call.Ints("dims");
  const int64_t a = WrapDim(dims[0], sizes.size());
  const int64_t b = WrapDim(dims[1], sizes.size());
  return Moved(call, [&](const Sizes& at) {
    Sizes from = at;
    if (turns == 1) {
      from[a] = at[b];
      from[b] = sizes[b] - 1 - at[a];
    } else if (turns == 2) {
      from[a] = sizes[a] - 1 - at[a];
      from[b] = sizes[b] - 1 - at[b];
    } else if (turns == 3) {
      from[a] = sizes[a] - 1 - at[b];
      from[b] = at[a];
    }
    return from;
  });
}

RefResults Cross(RefCall& call) {
  Elements y = EmptyResult(call);
  const Elements a = call.Load("self").Broadcast(y.sizes);
  const Elements b = call.Load("other").Broadcast(y.sizes);
  for (const auto& row : CutAlong(y.sizes, call.Int("dim")).members) {
    for (size_t k = 0; k < 3; ++k) {
      const int64_t i = row[(k + 1) % 3], j = row[(k + 2) % 3];
      if (y.floating) {
        y.f[row[k]] = a.F(i) * b.F(j) - a.F(j) * b.F(i);
      } else {
        y.i[row[k]] = a.I(i) * b.I(j) - a.I(j) * b.I(i);
      }
    }
  }
  return {call.Make(0, y)};
}

RefResults Trace(RefCall& call) {
  const Elements x = call.Load("self");
  Elements y = EmptyResult(call);
  for (int64_t k = 0; k < std::min(x.sizes[0], x.sizes[1]); ++k) {
    Add(x, k * x.sizes[1] + k, y, 0);
  }
  return {call.Make(0, y)};
}

constexpr ReferenceRow kRows[] = {
    {"aten.diagonal_scatter.default", DiagonalScatter},
    {"aten.diagonal_backward.default", DiagonalBackward},
    {"aten.diag_embed.default", DiagEmbed},
    {"aten.index_reduce.default", IndexReduce},
    {"aten.max_unpool2d.default", MaxUnpool},
    {"aten.max_unpool3d.default", MaxUnpool},
    {"aten.take.default", Take},
    {"aten.put.default", Put},
    {"aten.reflection_pad1d_backward.default", PadBackward<true>},
    {"aten.reflection_pad2d_backward.default", PadBackward<true>},
    {"aten.replication_pad1d_backward.default", PadBackward<false>},
    {"aten.replication_pad2d_backward.default", PadBackward<false>},
    {"aten.pixel_shuffle.default", PixelShuffle},
    {"aten.pixel_unshuffle.default", PixelUnshuffle},
    {"aten.channel_shuffle.default", ChannelShuffle},
    {"aten.rot90.default", Turn},
    {"aten.linalg_cross.default", Cross},
    {"aten.trace.default", Trace},
};

}  // namespace

absl::Span<const ReferenceRow> RearrangeReferences() { return kRows; }

}  // namespace kiln
