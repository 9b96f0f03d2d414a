#ifndef KILN_COMPILER_CODEGEN_STAGED_LOADS_H_
#define KILN_COMPILER_CODEGEN_STAGED_LOADS_H_

// Copies rows to shared memory, asynchronously, while earlier rows are being processed
// (CudaRows, `stages`). Each thread copies only what it reads itself: its groups of the
// row, and the values that the row has once. So no barrier is needed.
//
// StagedRowsOf (held_rows.h) says which loads are staged, and where they stand in shared
// memory. Consecutive threads have consecutive slots.

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/codegen/cuda_body.h"
#include "compiler/schedule/held_rows.h"
#include "compiler/schedule/kernel_passes.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

class StagedLoads {
 public:
  // `body` must have the variant's vectors. All arguments must outlive this.
  StagedLoads(CudaBody& body, const CudaRows& variant,
              const KernelPasses& passes);

  // Loads of held groups that are staged.
  const std::vector<ScalarId>& groups() const { return rows_.groups; }

  bool Has(ScalarId load) const { return !slots_[load].empty(); }

  // Dynamic shared memory of a block.
  int64_t bytes() const { return rows_.bytes; }

  // Declares pointers to the thread's first slots.
  void Declare();
  // Begin the copies to `stage`: of the values that the row has once (the row's axes must
  // be declared), and of the held group `k`.
  void CopyRow(const std::string& stage);
  void CopyGroup(const std::string& stage);
  // Read from `stage`: the values that the row has once, and those loads of the held
  // group `k` that are in `ids`.
  void ReadRow(const std::string& stage);
  void ReadGroup(const std::vector<ScalarId>& ids, const std::string& stage);

 private:
  int Threads() const { return variant_.lanes * variant_.rows; }
  std::string GroupSlot(ScalarId load, const std::string& stage) const;
  std::string RowSlot(ScalarId load, const std::string& stage) const;

  CudaBody& body_;
  const CudaRows& variant_;
  const StagedRows rows_;
  std::vector<std::string>
      slots_;  // for each node the name of a pointer; empty: not staged
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_STAGED_LOADS_H_
