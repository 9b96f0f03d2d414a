// Products of matrices, in double.

#include <string>
#include <utility>

#include "compiler/reference/reference_table.h"
#include "compiler/reference/special_functions.h"

namespace kiln {
namespace {

// a[..., M, K] times b[..., K, N] with equal leading sizes.
Elements Product(const Elements& a, const Elements& b) {
  const size_t rank = a.sizes.size();
  const int64_t m = a.sizes[rank - 2], k = a.sizes[rank - 1];
  const int64_t n = b.sizes[rank - 1];
  Sizes sizes = a.sizes;
  sizes[rank - 1] = n;
  // Integers multiply as integers.
  Elements y = a.Like(sizes);
  const int64_t batches = m * n == 0 ? 0 : y.count() / (m * n);
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t t = 0; t < k; ++t) {
        const int64_t left = (batch * m + r) * k + t;
        for (int64_t c = 0; c < n; ++c) {
          const int64_t right = (batch * k + t) * n + c;
          const int64_t to = (batch * m + r) * n + c;
          if (y.floating) {
            y.f[to] += a.f[left] * b.f[right];
          } else {
            y.i[to] += a.i[left] * b.i[right];
          }
        }
      }
    }
  }
  return y;
}

// beta * bias + alpha * product; a beta of 0 leaves the bias unread.
Elements WithBias(RefCall& call, absl::string_view bias, Elements product) {
  const double beta = call.Has("beta") ? call.Float("beta") : 1;
  const double alpha = call.Has("alpha") ? call.Float("alpha") : 1;
  const Elements b = call.Load(bias).Broadcast(product.sizes);
  for (size_t k = 0; k < product.f.size(); ++k) {
    product.f[k] *= alpha;
    if (beta != 0) product.f[k] += beta * b.F(k);
  }
  for (size_t k = 0; k < product.i.size(); ++k) {
    product.i[k] *= static_cast<int64_t>(alpha);
    if (beta != 0) product.i[k] += static_cast<int64_t>(beta) * b.I(k);
  }
  return product;
}

RefResults Mm(RefCall& call) {
  return {call.Make(0, Product(call.Load("self"), call.Load("mat2")))};
}

RefResults Addmm(RefCall& call) {
  return {call.Make(
      0,
      WithBias(call, "self", Product(call.Load("mat1"), call.Load("mat2"))))};
}

RefResults Baddbmm(RefCall& call) {
  return {call.Make(
      0, WithBias(call, "self",
                  Product(call.Load("batch1"), call.Load("batch2"))))};
}

// As numpy.matmul: vectors become matrices for the while, batches broadcast.
Elements AnyMatmul(Elements a, Elements b) {
  const bool row = a.sizes.size() == 1, column = b.sizes.size() == 1;
  if (row) a.sizes.insert(a.sizes.begin(), 1);
  if (column) b.sizes.push_back(1);
  const Sizes batch = BroadcastSizes(Sizes(a.sizes.begin(), a.sizes.end() - 2),
                                     Sizes(b.sizes.begin(), b.sizes.end() - 2));
  const auto with_batch = [&batch](const Elements& e) {
    Sizes sizes = batch;
    sizes.insert(sizes.end(), e.sizes.end() - 2, e.sizes.end());
    return e.Broadcast(sizes);
  };
  Elements y = Product(with_batch(a), with_batch(b));
  if (row) y.sizes.erase(y.sizes.end() - 2);
  if (column) y.sizes.pop_back();
  return y;
}

RefResults Matmul(RefCall& call) {
  return {call.Make(0, AnyMatmul(call.Load("self"), call.Load("other")))};
}

RefResults Linear(RefCall& call) {
  const Elements w = call.Load("weight");
  Elements turned = Elements::Floats({w.sizes[1], w.sizes[0]});
  for (int64_t r = 0; r < w.sizes[0]; ++r) {
    for (int64_t c = 0; c < w.sizes[1]; ++c) {
      turned.f[c * w.sizes[0] + r] = w.F(r * w.sizes[1] + c);
    }
  }
  Elements y = AnyMatmul(call.Load("input"), turned);
  if (call.Has("bias")) y = WithBias(call, "bias", std::move(y));
  return {call.Make(0, y)};
}

RefResults Mv(RefCall& call) {
  return {call.Make(0, AnyMatmul(call.Load("self"), call.Load("vec")))};
}

RefResults Dot(RefCall& call) {
  const absl::string_view other = call.Has("tensor") ? "tensor" : "other";
  return {call.Make(0, AnyMatmul(call.Load("self"), call.Load(other)))};
}

RefResults Addmv(RefCall& call) {
  return {call.Make(
      0,
      WithBias(call, "self", AnyMatmul(call.Load("mat"), call.Load("vec"))))};
}

RefResults Addr(RefCall& call) {
  Elements column = call.Load("vec1"), row = call.Load("vec2");
  column.sizes.push_back(1);
  row.sizes.insert(row.sizes.begin(), 1);
  return {call.Make(0, WithBias(call, "self", Product(column, row)))};
}

constexpr ReferenceRow kRows[] = {
    {"aten.mm.default", Mm},         {"aten.bmm.default", Mm},
    {"aten.addmm.default", Addmm},   {"aten.baddbmm.default", Baddbmm},
    {"aten.matmul.default", Matmul}, {"aten.linear.default", Linear},
    {"aten.mv.default", Mv},         {"aten.dot.default", Dot},
    {"aten.vdot.default", Dot},      {"aten.addmv.default", Addmv},
    {"aten.addr.default", Addr},
};

}  // namespace

absl::Span<const ReferenceRow> MatmulReferences() { return kRows; }

}  // namespace kiln
