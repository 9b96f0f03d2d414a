// Windows over the last dims, and resizing by nearest neighbours.

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "compiler/reference/reference_table.h"

namespace kiln {
namespace {

struct Window {
  Sizes kernel, stride, padding, dilation;

  // The list with one number a dim; an empty stride is the kernel's.
  static Sizes Fill(Sizes list, size_t dims, const Sizes& otherwise) {
    if (list.empty()) list = otherwise;
    if (list.size() == 1) list.assign(dims, list[0]);
    return list;
  }
};

Window WindowOf(RefCall& call, size_t dims) {
  Window w;
  w.kernel = Window::Fill(call.Ints("kernel_size"), dims, {1});
  w.stride = Window::Fill(call.Ints("stride"), dims, w.kernel);
  w.padding = Window::Fill(call.Ints("padding"), dims, {0});
  w.dilation = Window::Fill(
      call.Has("dilation") ? call.Ints("dilation") : Sizes{}, dims, {1});
  return w;
}

// Calls `visit(y, xs, padded)` for each element of the result: its position,
// those of the input inside its window, and how many places the window has
// with its padding, at the far ends cut at size + padding.
using WindowVisit =
    std::function<void(int64_t, const std::vector<int64_t>&, int64_t)>;

void ForEachWindow(const Sizes& y, const Sizes& x, const Window& w,
                   const WindowVisit& visit) {
  const size_t dims = w.kernel.size(), first = y.size() - dims;
  int64_t flat_y = 0;
  ForEachIndex(y, [&](const Sizes& at) {
    std::vector<int64_t> places;
    int64_t padded = 1;
    for (size_t d = 0; d < dims; ++d) {
      const int64_t start = at[first + d] * w.stride[d] - w.padding[d];
      const int64_t end =
          std::min(start + w.kernel[d], x[first + d] + w.padding[d]);
      padded *= end - start;
    }
    ForEachIndex(w.kernel, [&](const Sizes& k) {
      Sizes from = at;
      for (size_t d = 0; d < dims; ++d) {
        const int64_t i =
            at[first + d] * w.stride[d] - w.padding[d] + k[d] * w.dilation[d];
        if (i < 0 || i >= x[first + d]) return;
        from[first + d] = i;
      }
      places.push_back(FlatIndex(x, from));
    });
    visit(flat_y++, places, padded);
  });
}

template <int dims>
RefResults MaxPool(RefCall& call) {
  const Elements x = call.Load("self");
  const Sizes& sizes = call.result(0).sizes;
  Elements y = x.Like(sizes);
  Elements places = Elements::Ints(sizes);
  const int64_t plane = NumElements(Sizes(x.sizes.end() - dims, x.sizes.end()));
  ForEachWindow(sizes, x.sizes, WindowOf(call, dims),
                [&](int64_t to, const std::vector<int64_t>& window, int64_t) {
                  int64_t best = window[0];
                  for (int64_t k : window) {
                    if (x.F(k) > x.F(best) || std::isnan(x.F(k))) best = k;
                  }
                  y.Take(to, x, best);
                  places.i[to] = best % plane;
                });
  return {call.Make(0, y), call.Make(1, places)};
}

template <int dims>
RefResults MaxPoolBackward(RefCall& call) {
  const Elements g = call.Load("grad_output"), places = call.Load("indices");
  const Sizes sizes = call.Tensor("self").sizes;
  Elements grad = Elements::Floats(sizes);
  const int64_t plane = NumElements(Sizes(sizes.end() - dims, sizes.end()));
  const int64_t plane_y =
      NumElements(Sizes(g.sizes.end() - dims, g.sizes.end()));
  for (int64_t k = 0; k < g.count(); ++k) {
    grad.f[k / plane_y * plane + places.I(k)] += g.F(k);
  }
  return {call.Make(0, grad)};
}

double Divisor(RefCall& call, const std::vector<int64_t>& window,
               int64_t padded) {
  if (call.Has("divisor_override")) return call.Float("divisor_override");
  return call.Bool("count_include_pad") ? static_cast<double>(padded)
                                        : static_cast<double>(window.size());
}

template <int dims>
RefResults AvgPool(RefCall& call) {
  const Elements x = call.Load("self");
  Elements y = Elements::Floats(call.result(0).sizes);
  ForEachWindow(
      y.sizes, x.sizes, WindowOf(call, dims),
      [&](int64_t to, const std::vector<int64_t>& window, int64_t padded) {
        for (int64_t k : window) y.f[to] += x.F(k);
        y.f[to] /= Divisor(call, window, padded);
      });
  return {call.Make(0, y)};
}

template <int dims>
RefResults AvgPoolBackward(RefCall& call) {
  const Elements g = call.Load("grad_output");
  Elements grad = Elements::Floats(call.Tensor("self").sizes);
  ForEachWindow(
      g.sizes, grad.sizes, WindowOf(call, dims),
      [&](int64_t to, const std::vector<int64_t>& window, int64_t padded) {
        for (int64_t k : window) {
          grad.f[k] += g.F(to) / Divisor(call, window, padded);
        }
      });
  return {call.Make(0, grad)};
}

// The positions of x that the adaptive window of each y covers.
void ForEachAdaptive(const Sizes& y, const Sizes& x, size_t dims,
                     const WindowVisit& visit) {
  const size_t first = y.size() - dims;
  int64_t flat_y = 0;
  ForEachIndex(y, [&](const Sizes& at) {
    Sizes start = at, extent(dims);
    for (size_t d = 0; d < dims; ++d) {
      const int64_t in = x[first + d], out = y[first + d], i = at[first + d];
      start[first + d] = i * in / out;
      extent[d] = ((i + 1) * in + out - 1) / out - start[first + d];
    }
    std::vector<int64_t> places;
    ForEachIndex(extent, [&](const Sizes& k) {
      Sizes from = start;
      for (size_t d = 0; d < dims; ++d) from[first + d] += k[d];
      places.push_back(FlatIndex(x, from));
    });
    visit(flat_y++, places, static_cast<int64_t>(places.size()));
  });
}

template <int dims>
RefResults AdaptiveAvgPool(RefCall& call) {
  const Elements x = call.Load("self");
  Elements y = Elements::Floats(call.result(0).sizes);
  ForEachAdaptive(
      y.sizes, x.sizes, dims,
      [&](int64_t to, const std::vector<int64_t>& window, int64_t count) {
        for (int64_t k : window) y.f[to] += x.F(k);
        y.f[to] /= static_cast<double>(count);
      });
  return {call.Make(0, y)};
}

template <int dims>
RefResults AdaptiveAvgPoolBackward(RefCall& call) {
  const Elements g = call.Load("grad_output");
  Elements grad = Elements::Floats(call.Tensor("self").sizes);
  ForEachAdaptive(
      g.sizes, grad.sizes, dims,
      [&](int64_t to, const std::vector<int64_t>& window, int64_t count) {
        for (int64_t k : window) {
          grad.f[k] += g.F(to) / static_cast<double>(count);
        }
      });
  return {call.Make(0, grad)};
}

// The input place nearest to place `i` of the result.
int64_t NearestPlace(RefCall& call, int64_t i, int64_t out, int64_t in,
                     absl::string_view scale) {
  // PyTorch computes the scale in float.
  const float ratio = call.Has(scale)
                          ? static_cast<float>(1.0 / call.Float(scale))
                          : static_cast<float>(in) / static_cast<float>(out);
  return std::min(
      static_cast<int64_t>(std::floor(static_cast<float>(i) * ratio)), in - 1);
}

RefResults UpsampleNearest2d(RefCall& call) {
  const Elements x = call.Load("self");
  Elements y = Elements::Floats(call.result(0).sizes);
  int64_t to = 0;
  ForEachIndex(y.sizes, [&](const Sizes& at) {
    Sizes from = at;
    from[2] = NearestPlace(call, at[2], y.sizes[2], x.sizes[2], "scales_h");
    from[3] = NearestPlace(call, at[3], y.sizes[3], x.sizes[3], "scales_w");
    y.f[to++] = x.F(FlatIndex(x.sizes, from));
  });
  return {call.Make(0, y)};
}

RefResults UpsampleNearest2dBackward(RefCall& call) {
  const Elements g = call.Load("grad_output");
  Elements y = Elements::Floats(call.result(0).sizes);
  int64_t from = 0;
  ForEachIndex(g.sizes, [&](const Sizes& at) {
    Sizes to = at;
    to[2] = NearestPlace(call, at[2], g.sizes[2], y.sizes[2], "scales_h");
    to[3] = NearestPlace(call, at[3], g.sizes[3], y.sizes[3], "scales_w");
    y.f[FlatIndex(y.sizes, to)] += g.F(from++);
  });
  return {call.Make(0, y)};
}

constexpr ReferenceRow kRows[] = {
    {"aten.upsample_nearest2d_backward.default", UpsampleNearest2dBackward},
    {"aten.max_pool2d_with_indices.default", MaxPool<2>},
    {"aten.max_pool3d_with_indices.default", MaxPool<3>},
    {"aten.max_pool2d_with_indices_backward.default", MaxPoolBackward<2>},
    {"aten.max_pool3d_with_indices_backward.default", MaxPoolBackward<3>},
    {"aten.avg_pool1d.default", AvgPool<1>},
    {"aten.avg_pool2d.default", AvgPool<2>},
    {"aten.avg_pool3d.default", AvgPool<3>},
    {"aten.avg_pool2d_backward.default", AvgPoolBackward<2>},
    {"aten.avg_pool3d_backward.default", AvgPoolBackward<3>},
    {"aten._adaptive_avg_pool2d.default", AdaptiveAvgPool<2>},
    {"aten._adaptive_avg_pool3d.default", AdaptiveAvgPool<3>},
    {"aten._adaptive_avg_pool2d_backward.default", AdaptiveAvgPoolBackward<2>},
    {"aten._adaptive_avg_pool3d_backward.default", AdaptiveAvgPoolBackward<3>},
    {"aten.upsample_nearest2d.default", UpsampleNearest2d},
};

}  // namespace

absl::Span<const ReferenceRow> PoolingReferences() { return kRows; }

}  // namespace kiln
