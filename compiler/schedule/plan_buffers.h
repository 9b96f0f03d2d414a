#ifndef KILN_COMPILER_SCHEDULE_PLAN_BUFFERS_H_
#define KILN_COMPILER_SCHEDULE_PLAN_BUFFERS_H_

#include <cstdint>

#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// Offsets and sizes in the arena are multiples of this many bytes: a cache line, and more
// than any vector access needs.
inline constexpr int64_t kArenaAlignment = 64;

// Places each temporary that a step of `plan` touches in the arena, and sets arena_bytes
// and peak_live_bytes. A temporary is live from the step that writes it first to the one
// that touches it last.
//
// Temporaries of more than `most_in_arena` bytes (with symbols at their hints) are
// allocated one by one instead. The arena is held for a whole call, but their memory can
// be used for results and later temporaries as soon as they are dead.
//
// Kernels write in place: a result takes the memory of an input of its kernel if the
// kernel is the last reader of that input, reads each element only to write the result's
// element at the same place, and both have the same length.
//
// Several orders of placement are tried (by size, by lifetime, by both), each buffer at
// the lowest offset that is free while it is live, and the one with the smallest arena is
// taken. If sizes hold symbols, this is done at their hints, and the offset of a buffer
// becomes the largest end of the buffers below it. That is correct for all values, and
// leaves no gaps at the hints.
//
// Deterministic. At worst quadratic in temporaries.
void PlanBuffers(KernelPlan& plan, int64_t most_in_arena);

// The `most_in_arena` of a target. On a GPU it is 1 MiB: memory is scarce, an allocation
// from a framework's pool costs a microsecond, and PyTorch's allocator packs blocks up to
// that size itself. On a CPU there is no limit: a new block costs a page fault for every
// 4 KiB, which is more than it saves.
int64_t MostInArena(const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_PLAN_BUFFERS_H_
