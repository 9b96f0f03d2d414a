// Concatenation: one nest with a masked load for each part.

#include <vector>

#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

// More parts than this take several nests, each for its own part of the result. Source:
// Inductor's max_pointwise_cat_inputs.
constexpr size_t kPartsOfOneNest = 8;

struct Part {
  ValueId value;
  SymExpr start, size;
};

// Writes `parts`, which lie along `dim` of the result.
void WriteParts(NodeLowering& n, absl::Span<const Part> parts, size_t dim) {
  NestWriter nest = n.Write();
  BodyBuilder& b = nest.body;
  const DType dtype = n.result_meta().dtype;
  DimVector sizes = n.result_meta().sizes;
  const SymExpr begin = parts.front().start;
  sizes[dim] = parts.back().start + parts.back().size - begin;
  const DimVector at = nest.Iterate(sizes);
  ScalarId value = 0;
  for (size_t k = parts.size(); k-- > 0;) {
    const Part& part = parts[k];
    DimVector from = at;
    from[dim] = part.size.Is(1) ? SymExpr(0) : at[dim] - (part.start - begin);
    ScalarId here;
    if (parts.size() == 1) {
      here = nest.Load(part.value, from);
    } else {
      ScalarId mask = Store::kNoMask;
      const ScalarId place = b.Index(at[dim]);
      if (k > 0) {
        mask = b.Op(ScalarOp::kGe, place, b.Index(part.start - begin));
      }
      if (k + 1 < parts.size()) {
        const ScalarId below =
            b.Op(ScalarOp::kLt, place, b.Index(part.start + part.size - begin));
        mask =
            mask == Store::kNoMask ? below : b.Op(ScalarOp::kAnd, mask, below);
      }
      here = nest.MaskedLoad(part.value, from, mask);
    }
    here = b.Cast(ComputeType(dtype), here);
    if (k + 1 == parts.size()) {
      value = here;
    } else {
      const ScalarId below = b.Op(ScalarOp::kLt, b.Index(at[dim]),
                                  b.Index(part.start + part.size - begin));
      value = b.Where(below, here, value);
    }
  }
  DimVector to = at;
  to[dim] += begin;
  nest.Store(n.result(), to, value);
  nest.Finish();
}

absl::Status Cat(NodeLowering& n, ScalarOp) {
  const TensorMeta& m = n.result_meta();
  const size_t dim = n.node.args.size() > 1 ? n.Dim(1, m.sizes.size()) : 0;
  std::vector<Part> parts;
  SymExpr start = 0;
  for (const Argument& item : n.arg(0).list()) {
    const TensorMeta& part = n.g.meta(item.value());
    // Skips empty parts, including PyTorch's legacy tensors of shape [0], which may be
    // concatenated with any rank.
    if (part.rank() != m.rank() || part.sizes[dim].Is(0)) continue;
    parts.push_back({item.value(), start, part.sizes[dim]});
    start += part.sizes[dim];
  }
  if (parts.empty()) {
    n.g.PlaceResult(n.result());
    return absl::OkStatus();
  }
  for (size_t first = 0; first < parts.size(); first += kPartsOfOneNest) {
    WriteParts(n, absl::MakeSpan(parts).subspan(first, kPartsOfOneNest), dim);
  }
  return absl::OkStatus();
}

constexpr LowerRow kRows[] = {{"aten.cat.default", Cat}};

}  // namespace

absl::Span<const LowerRow> CatLowerings() { return kRows; }

}  // namespace kiln
