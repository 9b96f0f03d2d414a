// Convolution of any rank with its gradients, from one list of which weight
// multiplies which input into which output.

#include <cstdint>
#include <functional>
#include <utility>

#include "compiler/reference/reference_table.h"
#include "compiler/reference/special_functions.h"

namespace kiln {
namespace {

struct Geometry {
  Sizes stride, padding, dilation;
  bool transposed = false;
  int64_t groups = 1;
};

Geometry GeometryOf(RefCall& call) {
  Geometry g{call.Ints("stride"), call.Ints("padding"), call.Ints("dilation"),
             call.Bool("transposed"), call.Int("groups")};
  return g;
}

// A single number stands for all spatial dims.
int64_t At(const Sizes& list, size_t d) {
  return list.size() == 1 ? list[0] : list[d];
}

using Tap = std::function<void(int64_t y, int64_t x, int64_t w)>;

// Calls `visit` for each product of a plain convolution: y += x * w, positions
// row-major in y[N, O, ...], x[N, C, ...] and w[O, C / groups, ...].
void ForEachTap(const Sizes& y, const Sizes& x, const Sizes& w,
                const Geometry& g, const Tap& visit) {
  const int64_t per_group = y[1] / g.groups;
  const Sizes kernel(w.begin() + 2, w.end());
  int64_t flat_y = 0;
  ForEachIndex(y, [&](const Sizes& at) {
    Sizes from = at;
    for (int64_t c = 0; c < w[1]; ++c) {
      from[1] = at[1] / per_group * w[1] + c;
      int64_t tap = (at[1] * w[1] + c) * NumElements(kernel);
      ForEachIndex(kernel, [&](const Sizes& k) {
        bool inside = true;
        for (size_t d = 0; d < kernel.size(); ++d) {
          from[2 + d] = at[2 + d] * At(g.stride, d) - At(g.padding, d) +
                        k[d] * At(g.dilation, d);
          inside = inside && from[2 + d] >= 0 && from[2 + d] < x[2 + d];
        }
        if (inside) visit(flat_y, FlatIndex(x, from), tap);
        ++tap;
      });
    }
    ++flat_y;
  });
}

// The same for a transposed convolution, which is a plain one read backwards:
// what was its output is the input.
void ForEachProduct(const Sizes& y, const Sizes& x, const Sizes& w,
                    const Geometry& g, const Tap& visit) {
  if (!g.transposed) return ForEachTap(y, x, w, g, visit);
  ForEachTap(x, y, w, g, [&](int64_t at_x, int64_t at_y, int64_t at_w) {
    visit(at_y, at_x, at_w);
  });
}

// An unbatched input is a batch of one.
Elements Batched(Elements e, size_t rank) {
  if (e.sizes.size() < rank) e.sizes.insert(e.sizes.begin(), 1);
  return e;
}

RefResults Convolution(RefCall& call) {
  const Elements w = call.Load("weight");
  const Elements x = Batched(call.Load("input"), w.sizes.size());
  const bool unbatched = call.Tensor("input").sizes.size() < w.sizes.size();
  Sizes sizes = call.result(0).sizes;
  if (unbatched) sizes.insert(sizes.begin(), 1);
  Elements y = Elements::Floats(sizes);
  ForEachProduct(sizes, x.sizes, w.sizes, GeometryOf(call),
                 [&](int64_t at_y, int64_t at_x, int64_t at_w) {
                   y.f[at_y] += x.F(at_x) * w.F(at_w);
                 });
  if (call.Has("bias")) {
    const Elements bias = call.Load("bias");
    int64_t k = 0;
    ForEachIndex(sizes, [&](const Sizes& at) { y.f[k++] += bias.F(at[1]); });
  }
  y.sizes = call.result(0).sizes;
  return {call.Make(0, y)};
}

RefResults ConvolutionBackward(RefCall& call) {
  const Elements g = call.Load("grad_output"), x = call.Load("input");
  const Elements w = call.Load("weight");
  Elements grad_x = Elements::Floats(x.sizes);
  Elements grad_w = Elements::Floats(w.sizes);
  ForEachProduct(g.sizes, x.sizes, w.sizes, GeometryOf(call),
                 [&](int64_t at_y, int64_t at_x, int64_t at_w) {
                   grad_x.f[at_x] += g.F(at_y) * w.F(at_w);
                   grad_w.f[at_w] += g.F(at_y) * x.F(at_x);
                 });
  Elements grad_b = Elements::Floats({g.sizes[1]});
  int64_t k = 0;
  ForEachIndex(g.sizes, [&](const Sizes& at) { grad_b.f[at[1]] += g.F(k++); });
  const std::vector<bool> mask = call.Bools("output_mask");
  const Elements* all[] = {&grad_x, &grad_w, &grad_b};
  RefResults results(3);
  for (int i = 0; i < 3; ++i) {
    if (mask[i]) results[i] = call.Make(i, *all[i]);
  }
  return results;
}

constexpr ReferenceRow kRows[] = {
    {"aten.convolution.default", Convolution},
    {"aten.convolution_backward.default", ConvolutionBackward},
};

}  // namespace

absl::Span<const ReferenceRow> ConvolutionReferences() { return kRows; }

}  // namespace kiln
