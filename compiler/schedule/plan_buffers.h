#ifndef KILN_COMPILER_SCHEDULE_PLAN_BUFFERS_H_
#define KILN_COMPILER_SCHEDULE_PLAN_BUFFERS_H_

#include <cstdint>

#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// Arena memory is handed out in pieces of this many bytes: whole cache lines,
// and more than any vector access needs.
inline constexpr int64_t kArenaAlignment = 64;

// Gives each temporary that a step of `plan` touches its place in the arena,
// and sets arena_bytes and peak_live_bytes. Steps are in order; a temporary
// lives from the step that writes it first to the one that touches it last.
//
// Temporaries of more than `most_in_arena` bytes (at the hints) are allocated
// one by one instead: the arena is held for a whole call, while the memory of
// these goes to results and later temporaries as soon as they are dead.
//
// A result takes the memory of an input of the same kernel if the kernel is the
// input's last reader, reads each element where it writes the result's, and both have
// the same length.
//
// Memory is packed in the best of a few orders (by size, by lifetime, by both),
// each buffer at the lowest offset that is free while it lives. Where sizes
// hold symbols, this is done at the hints. An offset is then the largest end of the
// buffers below: correct for all values, and without gaps at the hints.
//
// Pure. Quadratic in temporaries at worst.
void PlanBuffers(KernelPlan& plan, int64_t most_in_arena);

// `most_in_arena` for a target. On a GPU 1 MiB: memory is scarce, an allocation from a
// framework's pool costs a microsecond, and PyTorch's allocator packs blocks up to
// that size itself. On a CPU no limit: a new block costs a page fault for every 4 KiB,
// which is more than it saves.
int64_t MostInArena(const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_PLAN_BUFFERS_H_
