// Tensors out of numbers.

#include <cmath>
#include <utility>

#include "compiler/reference/reference_table.h"
#include "compiler/reference/special_functions.h"

namespace kiln {
namespace {

RefResults Filled(RefCall& call, const RefNumber& value) {
  const RefMeta& due = call.result(0);
  return {call.Make(0, value.floating ? Elements::Floats(due.sizes, value.f)
                                      : Elements::Ints(due.sizes, value.i))};
}

RefResults Zeros(RefCall& call) { return Filled(call, {}); }
RefResults Ones(RefCall& call) { return Filled(call, {false, 0, 1}); }
RefResults Full(RefCall& call) {
  return Filled(call, call.Number("fill_value"));
}
RefResults Fill(RefCall& call) { return Filled(call, call.Number("value")); }
RefResults ScalarTensor(RefCall& call) {
  return Filled(call, call.Number("s"));
}

// start, start + step, ...: as many as the result has elements. Integers are exact.
RefResults Counted(RefCall& call, const RefNumber& start,
                   const RefNumber& step) {
  const Sizes& sizes = call.result(0).sizes;
  const bool floating = start.floating || step.floating;
  Elements y = floating ? Elements::Floats(sizes) : Elements::Ints(sizes);
  for (int64_t k = 0; k < y.count(); ++k) {
    if (floating) {
      y.f[k] = start.F() + static_cast<double>(k) * step.F();
    } else {
      y.i[k] = start.i + k * step.i;
    }
  }
  return {call.Make(0, y)};
}

RefResults Arange(RefCall& call) {
  const RefNumber start =
      call.Has("start") ? call.Number("start") : RefNumber{};
  const RefNumber step =
      call.Has("step") ? call.Number("step") : RefNumber{false, 0, 1};
  return Counted(call, start, step);
}

RefResults Iota(RefCall& call) {
  return Counted(call, call.Number("start"), call.Number("step"));
}

// From "start" to "end" in equal steps.
Elements Evenly(RefCall& call) {
  const double start = call.Load("start").F(0), end = call.Load("end").F(0);
  Elements y = Elements::Floats(call.result(0).sizes);
  const int64_t n = y.count();
  const double step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
  for (int64_t k = 0; k < n; ++k) {
    // From the nearer end, so that the last element is exact.
    y.f[k] = k < n / 2 || n == 1 ? start + step * static_cast<double>(k)
                                 : end - step * static_cast<double>(n - 1 - k);
  }
  return y;
}

RefResults Linspace(RefCall& call) { return {call.Make(0, Evenly(call))}; }

// base to the powers of a linspace.
RefResults Logspace(RefCall& call) {
  Elements y = Evenly(call);
  const double base = call.Float("base");
  for (double& value : y.f) value = std::pow(base, value);
  return {call.Make(0, y)};
}

// 48 bits of two numbers of this operator's streams.
RefResults Seed(RefCall& call) {
  Elements y = Elements::Ints({});
  for (int half = 0; half < 2; ++half) {
    const double drawn = PhiloxUniform(call.seed(), 0, call.NextStream());
    y.i[0] = (y.i[0] << 24) + static_cast<int64_t>(drawn * (1 << 24));
  }
  return {call.Make(0, y)};
}

// Uniform, or normal as Box and Muller have it.
RefResults RandomOfSeed(RefCall& call) {
  const auto seed = static_cast<uint64_t>(call.Load("seed").I(0));
  const bool normal = call.String("mode") == "randn";
  Elements y = Elements::Floats(call.result(0).sizes);
  for (int64_t k = 0; k < y.count(); ++k) {
    y.f[k] = PhiloxUniform(seed, k, 0);
    if (normal) {
      y.f[k] = std::sqrt(-2 * std::log(1 - y.f[k])) *
               std::cos(2 * M_PI * PhiloxUniform(seed, k, 1));
    }
  }
  return {call.Make(0, y)};
}

RefResults Eye(RefCall& call) {
  const Sizes& sizes = call.result(0).sizes;
  Elements y = Elements::Ints(sizes);
  for (int64_t r = 0; r < sizes[0] && r < sizes[1]; ++r) {
    y.i[r * sizes[1] + r] = 1;
  }
  return {call.Make(0, y)};
}

// Row and column indices of a triangle, row by row.
template <bool lower>
RefResults TriangleIndices(RefCall& call) {
  const int64_t rows = call.Int("row"), columns = call.Int("col");
  const int64_t offset = call.Int("offset");
  Sizes at_row, at_column;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const bool inside = lower ? c - r <= offset : c - r >= offset;
      if (!inside) continue;
      at_row.push_back(r);
      at_column.push_back(c);
    }
  }
  Elements y = Elements::Ints({2, static_cast<int64_t>(at_row.size())});
  y.i = at_row;
  y.i.insert(y.i.end(), at_column.begin(), at_column.end());
  return {call.Make(0, y)};
}

constexpr ReferenceRow kRows[] = {
    {"aten.zeros.default", Zeros},
    {"aten.zeros_like.default", Zeros},
    {"aten.new_zeros.default", Zeros},
    {"aten.zero.default", Zeros},
    {"aten.ones.default", Ones},
    {"aten.ones_like.default", Ones},
    {"aten.new_ones.default", Ones},
    {"aten.full.default", Full},
    {"aten.full_like.default", Full},
    {"aten.new_full.default", Full},
    {"aten.fill.Scalar", Fill},
    {"aten.fill.Tensor", Fill},
    {"aten.scalar_tensor.default", ScalarTensor},
    // Contents are anything; zeros are that.
    {"aten.empty.memory_format", Zeros},
    {"aten.empty_like.default", Zeros},
    {"aten.empty_strided.default", Zeros},
    {"aten.empty_permuted.default", Zeros},
    {"aten.new_empty.default", Zeros},
    {"aten.new_empty_strided.default", Zeros},
    {"aten._efficientzerotensor.default", Zeros},
    {"aten.arange.default", Arange},
    {"aten.arange.start", Arange},
    {"aten.arange.start_step", Arange},
    {"prims.iota.default", Iota},
    {"aten.linspace.default", Linspace},
    {"aten.linspace.Tensor_Tensor", Linspace},
    {"aten.linspace.Tensor_Scalar", Linspace},
    {"aten.linspace.Scalar_Tensor", Linspace},
    {"aten.logspace.default", Logspace},
    {"aten.logspace.Tensor_Tensor", Logspace},
    {"aten.logspace.Tensor_Scalar", Logspace},
    {"aten.logspace.Scalar_Tensor", Logspace},
    {"prims.inductor_seed.default", Seed},
    {"prims.inductor_random.default", RandomOfSeed},
    {"aten.eye.default", Eye},
    {"aten.eye.m", Eye},
    {"aten.tril_indices.default", TriangleIndices<true>},
    {"aten.triu_indices.default", TriangleIndices<false>},
};

}  // namespace

absl::Span<const ReferenceRow> FactoryReferences() { return kRows; }

}  // namespace kiln
