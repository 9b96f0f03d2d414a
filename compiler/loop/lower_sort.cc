// Sorts the rows of a matrix. Short rows take one nest, which a block sorts in its shared
// memory; other rows are sorted digit by digit.

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/loop/lowering.h"
#include "compiler/loop/ordered_keys.h"
#include "compiler/loop/update.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

constexpr int kWidestDigit = 8;  // bits

// prims.sort_rows: for each row the positions of its first values in sorted order.
absl::Status SortRows(NodeLowering& n, ScalarOp) {
  const DimVector& sizes = n.meta(0).sizes;
  const SymExpr count = n.result_meta().sizes[1];
  NestWriter nest = n.Write();
  if (sizes[1].Is(1)) {
    const DimVector only = nest.Iterate(n.result_meta().sizes);
    nest.Store(n.result(), only, nest.body.Int(DType::kInt64, 0));
    nest.Finish();
    return absl::OkStatus();
  }
  const DimVector row = nest.Iterate({sizes[0]});
  const DimVector along = nest.Iterate({sizes[1]}, /*reduction=*/true);
  ScalarId value = nest.Load(n.tensor(0), {row[0], along[0]});
  if (IsHalf(nest.body.dtype(value)))
    value = nest.body.Cast(DType::kFloat32, value);
  ScalarNode sort{ScalarOp::kSort, DType::kInt64,
                  BoolOf(n.arg(2)) ? ReduceOp::kMax : ReduceOp::kMin};
  sort.number.i =
      count == sizes[1] || !count.is_constant() ? 0 : count.constant();
  sort.args.push_back(value);
  const ScalarId place = nest.body.Add(std::move(sort));
  if (count == sizes[1]) {
    nest.Store(n.result(), {row[0], along[0]}, place);
  } else {
    nest.Store(n.result(), {row[0], along[0]}, place, StoreMode::kSet,
               nest.body.Op(ScalarOp::kLt, nest.body.Index(along[0]),
                            nest.body.Index(count)));
  }
  nest.Finish();
  return absl::OkStatus();
}

// The bits of a key that can differ. A key is a non-negative number that compares like
// the value it was made from.
struct KeyBits {
  int first, count;

  int digits() const { return (count + kWidestDigit - 1) / kWidestDigit; }
  int width() const { return (count + digits() - 1) / digits(); }
};
KeyBits BitsOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return {0, 1};
    case DType::kUInt8:
    case DType::kInt8:
      return {0, 8};
    case DType::kInt16:
      return {0, 16};
    // As float32: sign, exponent, and the first bits of the mantissa.
    case DType::kBFloat16:
      return {16, 16};
    case DType::kFloat16:
      return {13, 19};
    default:
      return {0, static_cast<int>(8 * SizeInBytes(dtype))};
  }
}

// LSD radix sort: each pass sorts the elements stably by one digit of a few bits,
// starting with the last digit. Before, the elements with each value of a digit are
// counted, for all digits at once. An element's new position is the first position of
// its digit's value plus the number of earlier elements with the same value.
class DigitSort {
 public:
  DigitSort(NodeLowering& n, bool descending)
      : n_(n),
        rows_(n.meta(0).sizes[0]),
        row_(n.meta(0).sizes[1]),
        dtype_(n.meta(0).dtype),
        bits_(BitsOf(dtype_)),
        values_(int64_t{1} << bits_.width()),
        descending_(descending),
        wants_places_(n.g.uses[n.result(1).index] > 0) {}

  void Run() {
    starts_ = Starts(Counts());
    for (int digit = 0; digit < bits_.digits(); ++digit) Pass(digit);
  }

 private:
  bool IsFirst(int digit) const { return digit == 0; }
  bool IsLast(int digit) const { return digit + 1 == bits_.digits(); }

  BufferId Temporary(DType dtype, DimVector sizes) {
    return n_.g.AddBuffer(BufferKind::kTemporary, dtype, sizes,
                          ContiguousStrides(sizes));
  }
  DimVector Cells() const { return {rows_, bits_.digits(), values_}; }

  // The key of `value`, with the bits of KeyBits.
  ScalarId KeyOf(BodyBuilder& b, ScalarId value) const {
    if (IsFloat(dtype_)) {
      const DType type = ComputeType(dtype_);
      ScalarId x = b.Cast(type, value);
      // Both zeros are equal.
      const ScalarId zero = b.Float(type, 0);
      x = b.Where(b.Op(ScalarOp::kEq, x, zero), zero, x);
      const OrderedKeys keys(type, false);
      return FromLeast(b, keys.KeyOf(b, x), keys.none());
    }
    if (SizeInBytes(dtype_) >= 4) {
      const int64_t least = dtype_ == DType::kInt64
                                ? std::numeric_limits<int64_t>::min()
                                : std::numeric_limits<int32_t>::min();
      return FromLeast(b, value, least);
    }
    const ScalarId x = b.Cast(DType::kInt32, value);
    const bool is_signed = dtype_ == DType::kInt8 || dtype_ == DType::kInt16;
    return is_signed ? FromLeast(b, x, int64_t{1} << (bits_.count - 1)) : x;
  }
  // Flips the sign bit, so that unsigned order is signed order.
  ScalarId FromLeast(BodyBuilder& b, ScalarId key, int64_t sign) const {
    return b.Op(ScalarOp::kXor, key, b.Int(b.dtype(key), sign));
  }

  ScalarId DigitOf(BodyBuilder& b, ScalarId value, int digit) const {
    ScalarId key = KeyOf(b, value);
    if (descending_) key = b.Op(ScalarOp::kNot, key);
    const int shift = bits_.first + digit * bits_.width();
    if (shift > 0)
      key = b.Op(ScalarOp::kShiftRight, key, b.Int(b.dtype(key), shift));
    const int width =
        std::min(bits_.width(), bits_.count - digit * bits_.width());
    return b.Op(ScalarOp::kAnd, b.Cast(DType::kInt32, key),
                b.Int(DType::kInt32, (int64_t{1} << width) - 1));
  }

  // For each row, digit and value of the digit: the number of elements.
  BufferId Counts() {
    const BufferId counts = Temporary(DType::kInt32, Cells());
    n_.g.program.steps.push_back(Fill{counts, Number{.i = 0}});
    NestWriter nest = n_.Write();
    const DimVector at = nest.Iterate({rows_, row_});
    const ScalarId value = nest.Load(n_.tensor(0), at);
    for (int digit = 0; digit < bits_.digits(); ++digit) {
      const ScalarId cell = DigitOf(nest.body, value, digit);
      nest.StoreTo(counts, {at[0], digit, nest.body.AsIndex(cell)},
                   nest.body.Int(DType::kInt32, 1), StoreMode::kAtomicAdd);
    }
    nest.Finish();
    return counts;
  }

  // For each row, digit and value of the digit: the first position of its elements in the
  // order of the digit.
  BufferId Starts(BufferId counts) {
    const BufferId starts = Temporary(DType::kInt32, Cells());
    NestWriter nest = n_.Write();
    DimVector at = nest.Iterate({rows_, bits_.digits()});
    at.push_back(nest.Iterate({values_}, /*reduction=*/true)[0]);
    const ScalarId own = nest.LoadCell(counts, at);
    ScalarNode scan{ScalarOp::kScan, DType::kInt32, ReduceOp::kSum};
    scan.args.push_back(own);
    const ScalarId through = nest.body.Add(std::move(scan));
    nest.StoreTo(starts, at, nest.body.Op(ScalarOp::kSub, through, own));
    nest.Finish();
    return starts;
  }

  void Pass(int digit) {
    NestWriter nest = n_.Write();
    BodyBuilder& b = nest.body;
    DimVector at = nest.Iterate({rows_});
    at.push_back(nest.Iterate({row_}, /*reduction=*/true)[0]);
    const ScalarId value = IsFirst(digit) ? nest.Load(n_.tensor(0), at)
                                          : nest.LoadCell(sorted_, at);
    const ScalarId cell = DigitOf(b, value, digit);
    const ScalarId start =
        nest.LoadCell(starts_, {at[0], digit, b.AsIndex(cell)});
    ScalarId to = start;
    if (!row_.Is(1)) {
      ScalarNode tally{ScalarOp::kTally, DType::kInt32};
      tally.number.i = values_;
      tally.args.push_back(cell);
      to = b.Op(ScalarOp::kAdd, start, b.Add(std::move(tally)));
    }
    std::optional<ScalarId> place;
    if (wants_places_) {
      place = IsFirst(digit) ? b.Index(at[1]) : nest.LoadCell(places_, at);
    }
    const DimVector there = {at[0], b.AsIndex(to)};
    if (IsLast(digit)) {
      StoreResults(nest, there, to, value, place);
    } else {
      sorted_ = Temporary(dtype_, {rows_, row_});
      nest.StoreTo(sorted_, there, value);
      if (place.has_value()) {
        places_ = Temporary(DType::kInt32, {rows_, row_});
        nest.StoreTo(places_, there, b.Cast(DType::kInt32, *place));
      }
    }
    nest.Finish();
  }

  // Stores a value and its position in the results, if its place is within their size.
  void StoreResults(NestWriter& nest, const DimVector& there, ScalarId to,
                    ScalarId value, std::optional<ScalarId> place) {
    BodyBuilder& b = nest.body;
    const SymExpr& count = n_.result_meta(0).sizes[1];
    ScalarId mask = Store::kNoMask;
    if (!(count == row_))
      mask = b.Op(ScalarOp::kLt, b.Cast(DType::kInt64, to), b.Index(count));
    nest.Store(n_.result(0), there, value, StoreMode::kSet, mask);
    if (place.has_value()) {
      nest.Store(n_.result(1), there, b.Cast(DType::kInt64, *place),
                 StoreMode::kSet, mask);
    }
  }

  NodeLowering& n_;
  const SymExpr rows_, row_;
  const DType dtype_;
  const KeyBits bits_;
  const int64_t values_;  // that a digit may have
  const bool descending_, wants_places_;
  BufferId starts_ = 0;
  BufferId sorted_ = 0, places_ = 0;  // the results of the previous pass
};

// prims.sort_values: the first values of each row in sorted order, and their positions.
absl::Status SortValues(NodeLowering& n, ScalarOp) {
  // Positions and counts are i32.
  if (!n.g.program.shapes.DecideLt(n.meta(0).sizes[1], int64_t{1} << 31,
                                   "sort_values")) {
    return MakeError(
        ErrorReason::kUnsupportedOp,
        absl::StrCat("sort_values: rows of ", n.meta(0).sizes[1].ToString(),
                     ", at most 2^31"));
  }
  DigitSort(n, BoolOf(n.arg(2))).Run();
  return absl::OkStatus();
}

constexpr LowerRow kRows[] = {
    {"prims.sort_rows.default", SortRows},
    {"prims.sort_values.default", SortValues},
};

}  // namespace

absl::Span<const LowerRow> SortLowerings() { return kRows; }

}  // namespace kiln
