#ifndef KILN_COMPILER_CODEGEN_STAGED_LOADS_H_
#define KILN_COMPILER_CODEGEN_STAGED_LOADS_H_

// Copies rows to shared memory, asynchronously, while earlier rows are being processed
// (CudaRows, `stages`). Each thread copies only what it reads itself: its groups of the
// row, and the values that the row has once. So no barrier is needed.
//
// Shared memory has one slot for each thread, group and stage. Consecutive threads have
// consecutive slots.

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/codegen/cuda_body.h"
#include "compiler/schedule/kernel_passes.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

class StagedLoads {
 public:
  // Stages the loads in `held`, and loads of one value per row if they can be copied. All
  // arguments but `held` must outlive this.
  StagedLoads(CudaBody& body, const CudaRows& variant,
              const KernelPasses& passes, const std::vector<ScalarId>& held);

  bool Has(ScalarId load) const { return !slots_[load].empty(); }

  // Dynamic shared memory of a block.
  int64_t bytes() const { return bytes_; }

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
  int64_t SlotBytes(ScalarId load) const;
  int Threads() const { return variant_.lanes * variant_.rows; }
  std::string GroupSlot(ScalarId load, const std::string& stage) const;
  std::string RowSlot(ScalarId load, const std::string& stage) const;

  CudaBody& body_;
  const CudaRows& variant_;
  std::vector<ScalarId> groups_;
  std::vector<ScalarId> of_row_;
  std::vector<std::string>
      slots_;  // for each node the name of a pointer; empty: not staged
  std::vector<int64_t> first_byte_;
  int64_t bytes_ = 0;
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_STAGED_LOADS_H_
