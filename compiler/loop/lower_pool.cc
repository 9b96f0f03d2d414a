// Pooling over windows of the last two dimensions. Windows are unrolled: a small window
// is cheaper as arithmetic than as a loop, and can be fused.

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

struct Window {
  int64_t kernel[2], stride[2], padding[2], dilation[2] = {1, 1};
};

void Pair(const NodeLowering& n, size_t argument, int64_t (&out)[2]) {
  const auto ints = n.Ints(argument);
  if (ints.empty()) return;
  out[0] = ints[0];
  out[1] = ints.size() > 1 ? ints[1] : ints[0];
}

absl::StatusOr<Window> ReadWindow(const NodeLowering& n, size_t kernel_arg,
                                  bool dilated) {
  Window w;
  Pair(n, kernel_arg, w.kernel);
  w.stride[0] = w.kernel[0];
  w.stride[1] = w.kernel[1];
  w.padding[0] = w.padding[1] = 0;
  Pair(n, kernel_arg + 1, w.stride);
  Pair(n, kernel_arg + 2, w.padding);
  if (dilated) Pair(n, kernel_arg + 3, w.dilation);
  if (w.kernel[0] * w.kernel[1] > kMostUnrolledCells) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat(n.node.op->name, ": a window of ",
                                  w.kernel[0], " x ", w.kernel[1]));
  }
  return w;
}

// A row or a column of a plane, and on which sides it may be out of bounds.
struct Place {
  SymExpr at;
  bool before = true;
  bool beyond = true;
};

// A value loaded at a row and a column of a plane, if they are within bounds.
struct Cell {
  ScalarId value;
  ScalarId inside;
  bool bounded;  // it may be out of bounds
};

Cell LoadCell(NestWriter& nest, const NodeLowering& n, ValueId v, DimVector at,
              const Place& h, const Place& w) {
  BodyBuilder& b = nest.body;
  const DimVector& sizes = n.g.meta(v).sizes;
  const size_t rank = sizes.size();
  at[rank - 2] = h.at;
  at[rank - 1] = w.at;
  const DType type = ComputeType(n.g.meta(v).dtype);
  const bool bounded = h.before || h.beyond || w.before || w.beyond;
  if (!bounded) return {nest.LoadAs(v, at, type), b.Bool(true), false};
  ScalarId inside = b.Bool(true);
  const auto require = [&](ScalarOp op, const Place& place, ScalarId bound) {
    inside = b.Op(ScalarOp::kAnd, inside, b.Op(op, b.Index(place.at), bound));
  };
  for (const auto& [place, size] :
       {std::pair(h, sizes[rank - 2]), std::pair(w, sizes[rank - 1])}) {
    if (place.before) require(ScalarOp::kGe, place, b.Int(DType::kInt64, 0));
    if (place.beyond) require(ScalarOp::kLt, place, b.Index(size));
  }
  return {b.Cast(type, nest.MaskedLoad(v, at, inside)), inside, true};
}

// Cell `i` along dimension `k` (of the last two) of the window at `at`, which is one of
// `windows`.
Place CellOfWindow(const NodeLowering& n, const Window& w, int k,
                   const SymExpr& at, int64_t i, const SymExpr& windows,
                   const SymExpr& size) {
  const int64_t first = i * w.dilation[k] - w.padding[k];
  const SymExpr last = (windows - 1) * w.stride[k] + first;
  return {at * w.stride[k] + first, first < 0,
          !n.g.shapes().KnownLt(last, size)};
}

// Whether a window may extend beyond the input.
bool ReachesOut(const NodeLowering& n, const Window& w, const TensorMeta& in,
                const TensorMeta& out) {
  for (int k = 0; k < 2; ++k) {
    const size_t d = static_cast<size_t>(in.rank() - 2 + k);
    const Place end =
        CellOfWindow(n, w, k, 0, w.kernel[k] - 1, out.sizes[d], in.sizes[d]);
    if (w.padding[k] > 0 || end.beyond) return true;
  }
  return false;
}

// The least value of a type.
ScalarId Least(BodyBuilder& b, DType type) {
  if (IsFloat(type))
    return b.Float(type, -std::numeric_limits<double>::infinity());
  if (type == DType::kUInt8 || type == DType::kBool) return b.Int(type, 0);
  const int64_t least = std::numeric_limits<int64_t>::min();
  return b.Int(type, least >> (64 - 8 * SizeInBytes(type)));
}

// max_pool2d_with_indices(self, kernel, stride, padding, dilation, ceil_mode): the
// largest value, or NaN if there is one, and its position in the plane.
absl::Status MaxPool(NodeLowering& n, ScalarOp) {
  ASSIGN_OR_RETURN(const Window w, ReadWindow(n, 1, /*dilated=*/true));
  NestWriter nest = n.Write();
  BodyBuilder& b = nest.body;
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  const size_t rank = at.size();
  const DimVector& windows = n.result_meta().sizes;
  const DimVector& plane = n.meta(0).sizes;
  const DType type = ComputeType(n.meta(0).dtype);
  ScalarId best = 0, place = 0, found = 0;
  bool first = true;
  for (int64_t i = 0; i < w.kernel[0]; ++i) {
    for (int64_t j = 0; j < w.kernel[1]; ++j) {
      const Place row = CellOfWindow(n, w, 0, at[rank - 2], i,
                                     windows[rank - 2], plane[rank - 2]);
      const Place column = CellOfWindow(n, w, 1, at[rank - 1], j,
                                        windows[rank - 1], plane[rank - 1]);
      const Cell cell = LoadCell(nest, n, n.tensor(0), at, row, column);
      const ScalarId value = b.Where(cell.inside, cell.value, Least(b, type));
      const ScalarId here = b.Index(row.at * plane[rank - 1] + column.at);
      if (first) {
        best = value;
        place = here;
        found = cell.inside;
        first = false;
        continue;
      }
      ScalarId better = b.Op(ScalarOp::kGt, value, best);
      if (IsFloat(type)) {
        better = b.Op(ScalarOp::kOr, better, b.Op(ScalarOp::kIsNan, value));
      }
      if (cell.bounded) {
        // The first cell within bounds is taken even if it is the least value of its
        // type.
        const ScalarId opens =
            b.Op(ScalarOp::kAnd, cell.inside, b.Op(ScalarOp::kNot, found));
        better = b.Op(ScalarOp::kOr, opens,
                      b.Op(ScalarOp::kAnd, cell.inside, better));
      } else {
        better = b.Op(ScalarOp::kOr, b.Op(ScalarOp::kNot, found), better);
      }
      found = b.Op(ScalarOp::kOr, found, cell.inside);
      best = b.Op(ScalarOp::kMaximum, best, value);
      place = b.Where(better, here, place);
    }
  }
  nest.Store(n.result(0), at, best);
  if (n.node.results.size() > 1) nest.Store(n.result(1), at, place);
  nest.Finish();
  return absl::OkStatus();
}

// How many windows may cover one element along a dimension.
int64_t Covering(const Window& w, int k) {
  const int64_t span = (w.kernel[k] - 1) * w.dilation[k] + 1;
  return (span + w.stride[k] - 1) / w.stride[k];
}

// max_pool2d_with_indices_backward(grad, self, kernel, stride, padding, dilation,
// ceil_mode, indices), as a gather: an element adds the gradients of all windows whose
// index is that element.
absl::Status MaxPoolBackward(NodeLowering& n, ScalarOp) {
  ASSIGN_OR_RETURN(const Window w, ReadWindow(n, 2, /*dilated=*/true));
  NestWriter nest = n.Write();
  BodyBuilder& b = nest.body;
  const DimVector& sizes = n.result_meta().sizes;
  const DimVector at = nest.Iterate(sizes);
  const size_t rank = at.size();
  const DType type = ComputeType(n.result_meta().dtype);
  const ScalarId here = b.Index(at[rank - 2] * sizes[rank - 1] + at[rank - 1]);
  ScalarId sum = b.Int(type, 0);
  for (int64_t i = 0; i < Covering(w, 0); ++i) {
    for (int64_t j = 0; j < Covering(w, 1); ++j) {
      const SymExpr row =
          FloorDiv(at[rank - 2] + w.padding[0], w.stride[0]) - i;
      const SymExpr column =
          FloorDiv(at[rank - 1] + w.padding[1], w.stride[1]) - j;
      const Cell index = LoadCell(nest, n, n.tensor(7), at, {row}, {column});
      const Cell grad = LoadCell(nest, n, n.tensor(0), at, {row}, {column});
      const ScalarId named =
          b.Op(ScalarOp::kAnd, index.inside,
               b.Op(ScalarOp::kEq, b.Cast(DType::kInt64, index.value), here));
      sum = b.Op(ScalarOp::kAdd, sum,
                 b.Where(named, b.Cast(type, grad.value), b.Int(type, 0)));
    }
  }
  nest.Store(n.result(), at, sum);
  nest.Finish();
  return absl::OkStatus();
}

// The number by which a window's sum is divided, as an expression of its position.
SymExpr DivisorAt(const Window& w, const SymExpr& row, const SymExpr& column,
                  const TensorMeta& plane, bool count_padding) {
  const size_t rank = plane.sizes.size();
  SymExpr count = 1;
  const SymExpr places[] = {row, column};
  for (int k = 0; k < 2; ++k) {
    const SymExpr& size = plane.sizes[rank - 2 + static_cast<size_t>(k)];
    const SymExpr start = places[k] * w.stride[k] - w.padding[k];
    const SymExpr end = Min(start + w.kernel[k], size + w.padding[k]);
    count *= count_padding ? end - start : Min(end, size) - Max(start, 0);
  }
  return count;
}

struct Average {
  Window window;
  bool count_padding;
  bool overridden;
  double divisor;
};

absl::StatusOr<Average> ReadAverage(const NodeLowering& n, size_t first) {
  ASSIGN_OR_RETURN(const Window w, ReadWindow(n, first, /*dilated=*/false));
  Average average{w, true, false, 1};
  if (n.node.args.size() > first + 4)
    average.count_padding = BoolOf(n.arg(first + 4));
  if (n.node.args.size() > first + 5 && !n.arg(first + 5).is_none()) {
    average.overridden = true;
    average.divisor = n.Number(first + 5);
  }
  return average;
}

ScalarId Divisor(BodyBuilder& b, const Average& a, const SymExpr& row,
                 const SymExpr& column, const TensorMeta& plane, bool bounded,
                 DType type) {
  if (a.overridden) return b.Float(type, a.divisor);
  if (!bounded) {
    return b.Int(type, a.window.kernel[0] * a.window.kernel[1]);
  }
  return b.Cast(
      type, b.Index(DivisorAt(a.window, row, column, plane, a.count_padding)));
}

// avg_pool2d(self, kernel, stride, padding, ceil_mode, count_include_pad,
// divisor_override).
absl::Status AvgPool(NodeLowering& n, ScalarOp) {
  ASSIGN_OR_RETURN(const Average a, ReadAverage(n, 1));
  const Window& w = a.window;
  NestWriter nest = n.Write();
  BodyBuilder& b = nest.body;
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  const size_t rank = at.size();
  const DType type = ComputeType(n.result_meta().dtype);
  const bool bounded = ReachesOut(n, w, n.meta(0), n.result_meta());
  ScalarId sum = b.Int(type, 0);
  for (int64_t i = 0; i < w.kernel[0]; ++i) {
    for (int64_t j = 0; j < w.kernel[1]; ++j) {
      const Cell cell = LoadCell(nest, n, n.tensor(0), at,
                                 CellOfWindow(n, w, 0, at[rank - 2], i,
                                              n.result_meta().sizes[rank - 2],
                                              n.meta(0).sizes[rank - 2]),
                                 CellOfWindow(n, w, 1, at[rank - 1], j,
                                              n.result_meta().sizes[rank - 1],
                                              n.meta(0).sizes[rank - 1]));
      const ScalarId value = b.Where(cell.inside, cell.value, b.Int(type, 0));
      sum = i == 0 && j == 0 ? value : b.Op(ScalarOp::kAdd, sum, value);
    }
  }
  const ScalarId divisor =
      Divisor(b, a, at[rank - 2], at[rank - 1], n.meta(0), bounded, type);
  nest.Store(n.result(), at, b.Op(ScalarOp::kDiv, sum, divisor));
  nest.Finish();
  return absl::OkStatus();
}

// avg_pool2d_backward(grad, self, kernel, …), as a gather.
absl::Status AvgPoolBackward(NodeLowering& n, ScalarOp) {
  ASSIGN_OR_RETURN(const Average a, ReadAverage(n, 2));
  const Window& w = a.window;
  NestWriter nest = n.Write();
  BodyBuilder& b = nest.body;
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  const size_t rank = at.size();
  const DType type = ComputeType(n.result_meta().dtype);
  const bool bounded = ReachesOut(n, w, n.meta(1), n.meta(0));
  ScalarId sum = b.Int(type, 0);
  const ScalarId zero = b.Int(DType::kInt64, 0);
  for (int64_t i = 0; i < Covering(w, 0); ++i) {
    for (int64_t j = 0; j < Covering(w, 1); ++j) {
      const SymExpr row =
          FloorDiv(at[rank - 2] + w.padding[0], w.stride[0]) - i;
      const SymExpr column =
          FloorDiv(at[rank - 1] + w.padding[1], w.stride[1]) - j;
      const Cell grad = LoadCell(nest, n, n.tensor(0), at, {row}, {column});
      // The window must reach this far: kernel > place - start.
      ScalarId covers = grad.inside;
      for (const auto& [place, start, kernel] :
           {std::tuple(at[rank - 2], row * w.stride[0] - w.padding[0],
                       w.kernel[0]),
            std::tuple(at[rank - 1], column * w.stride[1] - w.padding[1],
                       w.kernel[1])}) {
        covers =
            b.Op(ScalarOp::kAnd, covers,
                 b.Op(ScalarOp::kGt, b.Index(start + kernel - place), zero));
      }
      const ScalarId divisor =
          Divisor(b, a, row, column, n.meta(1), bounded, type);
      sum = b.Op(ScalarOp::kAdd, sum,
                 b.Where(covers, b.Op(ScalarOp::kDiv, grad.value, divisor),
                         b.Int(type, 0)));
    }
  }
  nest.Store(n.result(), at, sum);
  nest.Finish();
  return absl::OkStatus();
}

// The position, among `from` elements, from which element `at` of `to` is copied. Eager
// mode multiplies in f32 by the reciprocal of the given scale or by from / to. An integer
// division is used if it gives the same result.
SymExpr NearestPlace(NestWriter& nest, const SymExpr& at, const SymExpr& from,
                     const SymExpr& to, const Argument& scale) {
  if (from.Is(1)) return 0;
  const SymExpr exact = FloorDiv(at * from, to);
  const bool given = !scale.is_none();
  if (!from.is_constant() || !to.is_constant()) return exact;
  const float ratio = given ? static_cast<float>(1.0 / *LiteralOf(scale))
                            : static_cast<float>(from.constant()) /
                                  static_cast<float>(to.constant());
  const auto place = [&](int64_t i) {
    return std::min(static_cast<int64_t>(static_cast<float>(i) * ratio),
                    from.constant() - 1);
  };
  bool same = true;
  for (int64_t i = 0; i < to.constant(); ++i) {
    same &= place(i) == i * from.constant() / to.constant();
  }
  if (same) return exact;
  BodyBuilder& b = nest.body;
  const ScalarId scaled =
      b.Op(ScalarOp::kMul, b.Cast(DType::kFloat32, b.Index(at)),
           b.Float(DType::kFloat32, ratio));
  return b.AsIndex(b.Op(ScalarOp::kMinimum, b.Cast(DType::kInt64, scaled),
                        b.Index(from - 1)));
}

// upsample_nearest2d(self, output_size, scales_h, scales_w).
absl::Status UpsampleNearest(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  const DimVector& to = n.result_meta().sizes;
  const DimVector& from = n.meta(0).sizes;
  const DimVector at = nest.Iterate(to);
  DimVector place = at;
  for (size_t d = 2; d < at.size(); ++d) {
    place[d] = NearestPlace(nest, at[d], from[d], to[d], n.arg(d));
  }
  nest.Store(n.result(), at, nest.Load(n.tensor(0), place));
  nest.Finish();
  return absl::OkStatus();
}

constexpr LowerRow kRows[] = {
    {"aten.max_pool2d_with_indices.default", MaxPool},
    {"aten.max_pool2d_with_indices_backward.default", MaxPoolBackward},
    {"aten.avg_pool2d.default", AvgPool},
    {"aten.avg_pool2d_backward.default", AvgPoolBackward},
    {"aten.upsample_nearest2d.default", UpsampleNearest},
};

}  // namespace

absl::Span<const LowerRow> PoolLowerings() { return kRows; }

}  // namespace kiln
