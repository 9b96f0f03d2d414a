#ifndef KILN_COMPILER_CODEGEN_STRETCH_SUMS_H_
#define KILN_COMPILER_CODEGEN_STRETCH_SUMS_H_

// Writes the sums over a stretch of rows (StoreMode::kSum) that a row kernel computes
// in addition to its own reductions. A thread adds the columns that it holds, row after
// row. Then the block's rows are added in order, through shared memory. That last part
// is a loop over columns. It is not unrolled for every held element, as the loop over
// rows must be, because it then took a third of a layer norm's backward.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_body.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

class StretchSums {
 public:
  // Both arguments must outlive this.
  StretchSums(CudaBody& body, const CudaRows& variant);

  bool Any() const { return !stores_.empty(); }
  bool Has(uint32_t store) const { return !names_[store].empty(); }

  // Declares the sums and sets them to zero. Before the loop over rows.
  void Declare();
  // Adds the values of one neighbour of the held group `k` if the condition `live` holds
  // (empty: always).
  void Add(const std::string& live);
  // For blocks of one row, after the loop: stores the sums of the held group `k`.
  absl::Status Store();
  // For blocks of several rows: adds the rows' sums and stores them. Uses `staged`, the
  // block's dynamic shared memory, which has `staged_bytes` so far, and returns the bytes
  // that it needs to have. The stretch's outer axes must be declared.
  absl::StatusOr<int64_t> StoreRows(int64_t staged_bytes);

 private:
  std::string Cell(uint32_t store) const;
  void OpenColumns(int groups, const std::string& first);
  void CloseColumns();

  CudaBody& body_;
  const CudaRows& variant_;
  std::vector<uint32_t> stores_;
  std::vector<std::string> names_;  // for each store; empty: not a kSum store
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_STRETCH_SUMS_H_
