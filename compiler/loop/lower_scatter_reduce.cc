// Scatters that combine by more than a sum. Written from the reader's side: an
// element of the result runs over the indices of its row and combines what is
// meant for it. No atomics, and the order is fixed; the cost is one comparison
// for each element and index of a row.

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

struct Combine {
  ReduceOp reduce;
  ScalarOp with_self;  // joins the combined value and the element itself
  double identity;     // of floats; integers take their own limits
  bool mean = false;
};

absl::StatusOr<Combine> CombineNamed(const NodeLowering& n,
                                     const Argument& name) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const auto* text = std::get_if<std::string>(&name.v);
  const std::string word = text == nullptr ? "" : *text;
  if (word == "sum") return Combine{ReduceOp::kSum, ScalarOp::kAdd, 0};
  if (word == "mean") return Combine{ReduceOp::kSum, ScalarOp::kAdd, 0, true};
  if (word == "prod") return Combine{ReduceOp::kProd, ScalarOp::kMul, 1};
  if (word == "amax") {
    return Combine{ReduceOp::kMax, ScalarOp::kMaximum, -kInf};
  }
  if (word == "amin") return Combine{ReduceOp::kMin, ScalarOp::kMinimum, kInf};
  return MakeError(ErrorReason::kMalformedGraph,
                   absl::StrCat(n.node.op->name, ": reduce \"", word, "\""));
}

ScalarId Identity(BodyBuilder& b, DType type, const Combine& combine) {
  if (IsFloat(type)) return b.Float(type, combine.identity);
  const bool wide = SizeInBytes(type) == 8;
  if (combine.reduce == ReduceOp::kMax) {
    return b.Int(type, wide ? std::numeric_limits<int64_t>::min()
                            : std::numeric_limits<int32_t>::min());
  }
  if (combine.reduce == ReduceOp::kMin) {
    return b.Int(type, wide ? std::numeric_limits<int64_t>::max()
                            : std::numeric_limits<int32_t>::max());
  }
  return b.Int(type, static_cast<int64_t>(combine.identity));
}

// Small integers and booleans are combined as i32; the store wraps.
DType CombineType(DType dtype) {
  const DType type = ComputeType(dtype);
  return !IsFloat(type) && SizeInBytes(type) < 4 ? DType::kInt32 : type;
}

// What is meant for one element, and whether: of all indices along `dim`.
struct Meant {
  ScalarId value, hit;
};

// scatter_reduce: index and source have the rank of self; index_reduce: the
// index is a list along `dim`.
Meant ReadMeant(NestWriter& nest, const NodeLowering& n, const DimVector& at,
                size_t dim, const SymExpr& along, DType type) {
  BodyBuilder& b = nest.body;
  const DimVector& sizes = n.meta(0).sizes;
  const DimVector& listed = n.meta(2).sizes;
  const bool whole =
      listed.size() == sizes.size() && n.origin != "index_reduce";
  DimVector index_at, source_at = at;
  ScalarId inside = b.Bool(true);
  if (!sizes.empty()) source_at[dim] = along;
  if (whole) {
    index_at = source_at;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (listed[d].Is(1)) index_at[d] = 0;
      if (d == dim || listed[d] == sizes[d]) continue;
      inside = b.Op(ScalarOp::kAnd, inside,
                    b.Op(ScalarOp::kLt, b.Index(at[d]), b.Index(listed[d])));
    }
  } else if (!listed.empty()) {
    index_at.push_back(along);
  }
  const DimVector& given = n.meta(3).sizes;
  for (size_t d = 0; d < given.size() && d < source_at.size(); ++d) {
    if (given[d].Is(1)) source_at[d] = 0;
  }
  source_at.resize(given.size(), 0);
  const bool bounded = b.node(inside).op != ScalarOp::kConstant;
  const auto load = [&](ValueId v, const DimVector& place, DType as) {
    return b.Cast(
        as, bounded ? nest.MaskedLoad(v, place, inside) : nest.Load(v, place));
  };
  ScalarId hit = inside;
  const ScalarId place = b.CheckIndex(
      ScalarOp::kCheckIndex, load(n.tensor(2), index_at, DType::kInt64),
      b.Index(sizes.empty() ? SymExpr(1) : sizes[dim]),
      bounded ? inside : Store::kNoMask);
  const ScalarId mine =
      sizes.empty() ? b.Int(DType::kInt64, 0) : b.Index(at[dim]);
  hit = b.Op(ScalarOp::kAnd, hit, b.Op(ScalarOp::kEq, place, mine));
  return {load(n.tensor(3), source_at, type), hit};
}

// (self, dim, index, source, reduce, *, include_self)
absl::Status ScatterReduce(NodeLowering& n, ScalarOp) {
  ASSIGN_OR_RETURN(const Combine combine, CombineNamed(n, n.arg(4)));
  const bool include_self = BoolOf(n.arg(5));
  const DimVector& sizes = n.meta(0).sizes;
  const size_t dim = n.Dim(1, sizes.size());
  const DimVector& listed = n.meta(2).sizes;
  SymExpr count = 1;
  if (!listed.empty()) count = listed.size() == 1 ? listed[0] : listed[dim];
  const DType type = CombineType(n.result_meta().dtype);
  NestWriter nest = n.Write();
  BodyBuilder& b = nest.body;
  const DimVector at = nest.Iterate(sizes);
  const DimVector along = nest.Iterate({count}, /*reduction=*/true);
  const Meant meant = ReadMeant(nest, n, at, dim, along[0], type);
  ScalarId value = b.Where(meant.hit, meant.value, Identity(b, type, combine));
  ScalarId hits = b.Cast(DType::kInt64, meant.hit);
  if (!count.Is(1)) {
    value = b.Reduce(combine.reduce, type, {&value, 1});
    hits = b.Reduce(ReduceOp::kSum, DType::kInt64, {&hits, 1});
  }
  const ScalarId self = nest.LoadAs(n.tensor(0), at, type);
  const ScalarId zero = b.Int(DType::kInt64, 0);
  const ScalarId any = b.Op(ScalarOp::kGt, hits, zero);
  if (include_self) value = b.Op(combine.with_self, self, value);
  if (combine.mean) {
    const ScalarId one = b.Int(DType::kInt64, 1);
    ScalarId terms = include_self ? b.Op(ScalarOp::kAdd, hits, one)
                                  : b.Op(ScalarOp::kMaximum, hits, one);
    value = b.Op(IsFloat(type) ? ScalarOp::kDiv : ScalarOp::kFloorDiv, value,
                 b.Cast(type, terms));
  }
  nest.Store(n.result(), at, b.Where(any, value, self));
  nest.Finish();
  return absl::OkStatus();
}

constexpr LowerRow kRows[] = {
    {"aten.scatter_reduce.two", ScatterReduce},
    {"aten.index_reduce.default", ScatterReduce},
};

}  // namespace

absl::Span<const LowerRow> ScatterReduceLowerings() { return kRows; }

}  // namespace kiln
