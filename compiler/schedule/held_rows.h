#ifndef KILN_COMPILER_SCHEDULE_HELD_ROWS_H_
#define KILN_COMPILER_SCHEDULE_HELD_ROWS_H_

// What a row kernel keeps of its rows: the values that stay between passes, which of them
// stand in shared memory, and where. The fields `held`, `hold_costly`, `stages`, `once`
// and `stretch` of a CudaRows define all of it.

#include <cstdint>
#include <vector>

#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/kernel_passes.h"
#include "compiler/schedule/kernel_variant.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

// An asynchronous copy to shared memory moves this many bytes or more. Source: PTX ISA,
// "cp.async".
inline constexpr int64_t kLeastCopiedBytes = 4;

// The passes of the variant's kernel. Pure.
KernelPasses RowPasses(const CudaRows& variant, const LoopNest& nest,
                       const NestFacts& facts);

// The loads whose groups stay from pass to pass, in registers or in shared memory.
std::vector<ScalarId> HeldLoads(const KernelPasses& passes,
                                const LoopNest& nest);

// Whether a load has the same groups in all rows, so that a block that walks a stretch
// loads them once, into registers.
inline bool IsOfAllRows(ScalarId load, const NestFacts& facts) {
  return (facts.axes[load] & ~facts.reduced) == 0;
}

// What stands in shared memory. It has one slot for each thread, group and stage.
struct StagedRows {
  std::vector<ScalarId> groups;     // loads of held groups
  std::vector<ScalarId> once;       // loads of one value for each row
  std::vector<int64_t> first_byte;  // of each node of the body that is staged
  int64_t bytes = 0;                // of a block
};

// Empty without `stages`. `passes` are the variant's (RowPasses), and `vectors` those
// along its vector axis. Pure.
StagedRows StagedRowsOf(const CudaRows& variant, const LoopNest& nest,
                        const NestFacts& facts, const Vectors& vectors,
                        const KernelPasses& passes);

// The bytes of a block's sums over a stretch for one held group of each thread, of the
// largest type.
int64_t SumBytesOfGroup(const CudaRows& variant, const LoopNest& nest,
                        const std::vector<Buffer>& buffers);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_HELD_ROWS_H_
