#include "compiler/reference/rows.h"

namespace kiln {

int64_t WrapDim(int64_t dim, int64_t rank) {
  return dim < 0 ? dim + (rank == 0 ? 1 : rank) : dim;
}

std::vector<bool> ReducedDims(const Sizes& dims, int64_t rank) {
  std::vector<bool> reduced(rank, dims.empty());
  for (int64_t dim : dims) {
    if (rank > 0) reduced[WrapDim(dim, rank)] = true;
  }
  return reduced;
}

std::vector<bool> ReducedDims(RefCall& call, absl::string_view name,
                              int64_t rank) {
  return ReducedDims(call.Has(name) ? call.Ints(name) : Sizes{}, rank);
}

Rows CutIntoRows(const Sizes& sizes, const std::vector<bool>& reduced) {
  Rows rows;
  for (size_t d = 0; d < sizes.size(); ++d) {
    rows.kept.push_back(reduced[d] ? 1 : sizes[d]);
    if (!reduced[d]) rows.dropped.push_back(sizes[d]);
  }
  rows.members.resize(NumElements(rows.kept));
  ForEachIndex(sizes, [&](const Sizes& index) {
    Sizes at = index;
    for (size_t d = 0; d < at.size(); ++d) {
      if (reduced[d]) at[d] = 0;
    }
    rows.members[FlatIndex(rows.kept, at)].push_back(FlatIndex(sizes, index));
  });
  return rows;
}

Rows CutAlong(const Sizes& sizes, int64_t dim) {
  const int64_t rank = static_cast<int64_t>(sizes.size());
  std::vector<bool> reduced(rank, false);
  if (rank > 0) reduced[WrapDim(dim, rank)] = true;
  return CutIntoRows(sizes, reduced);
}

}  // namespace kiln
