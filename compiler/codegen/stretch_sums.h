#ifndef KILN_COMPILER_CODEGEN_STRETCH_SUMS_H_
#define KILN_COMPILER_CODEGEN_STRETCH_SUMS_H_

// Writes the sums over a stretch of rows (StoreMode::kSum) that a row kernel
// keeps beside its own reductions. A thread adds the columns that it holds, row
// after row; then the block's rows are added in their order.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/codegen/cuda_body.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

class StretchSums {
 public:
  // Both must outlive this.
  StretchSums(CudaBody& body, const CudaRows& variant);

  bool Has(uint32_t store) const { return !names_[store].empty(); }

  // Declares the sums, zero, before the loop over rows.
  void Declare();
  // Adds the values of one neighbour of the held group `k`, when `live` holds
  // ("": always).
  void Add(const std::string& live);
  // After the loop: adds the sums of the block's rows to those of its first.
  void JoinRows();
  // Stores the sums of the held group `k`.
  absl::Status Store();

 private:
  std::string Cell(uint32_t store) const;

  CudaBody& body_;
  const CudaRows& variant_;
  std::vector<uint32_t> stores_;
  std::vector<std::string> names_;  // one a store of the nest; empty: another's
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_STRETCH_SUMS_H_
