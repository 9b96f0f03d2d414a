#include "compiler/schedule/plan_buffers.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/inplace_reuse.h"

namespace kiln {

namespace {

constexpr int kNever = -1;

// Buffers that share memory: each is written in place of the one before.
struct Block {
  std::vector<BufferId> buffers;
  SymExpr bytes = 0;  // rounded up
  int64_t hint_bytes = 0;
  int first = 0, last = 0;  // the steps between which it is live, inclusive
};

struct Lifetime {
  int first = kNever;
  int last = kNever;
};

// For each buffer, whether it is an input whose memory temporaries may take after its
// last read. Inputs that are returned, or written for the caller, are not.
std::vector<bool> TakenInputs(const KernelPlan& plan) {
  std::vector<bool> may(plan.buffers.size());
  for (size_t b = 0; b < may.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    may[b] = MayBeTaken(buffer) &&
             std::find(plan.mutated_inputs.begin(), plan.mutated_inputs.end(),
                       buffer.index) == plan.mutated_inputs.end();
  }
  for (const ProgramOutput& output : plan.outputs)
    if (const auto* view = std::get_if<View>(&output.what))
      may[view->buffer] = false;
  return may;
}

std::vector<Lifetime> LifetimesOf(const KernelPlan& plan) {
  std::vector<Lifetime> lives(plan.buffers.size());
  const std::vector<bool> taken = TakenInputs(plan);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    VisitStepBuffers(plan.steps[s], [&](BufferId b, bool) {
      if (plan.buffers[b].kind != BufferKind::kTemporary && !taken[b]) return;
      if (lives[b].first == kNever) lives[b].first = static_cast<int>(s);
      lives[b].last = static_cast<int>(s);
    });
  }
  return lives;
}

SymExpr RoundedBytes(const Buffer& buffer) {
  const SymExpr bytes = Product(buffer.sizes) * SizeInBytes(buffer.dtype);
  if (bytes.is_constant()) {
    return (bytes.constant() + kArenaAlignment - 1) / kArenaAlignment *
           kArenaAlignment;
  }
  return CeilDiv(bytes, kArenaAlignment) * kArenaAlignment;
}

// One block for each temporary, or for several that are written in place of each other.
std::vector<Block> BlocksOf(const KernelPlan& plan,
                            const std::vector<Lifetime>& lives) {
  std::vector<Block> blocks;
  std::vector<int> block_of(plan.buffers.size(), kNever);
  const auto add = [&](BufferId b) {
    const SymExpr bytes = RoundedBytes(plan.buffers[b]);
    block_of[b] = static_cast<int>(blocks.size());
    blocks.push_back(
        {{b}, bytes, plan.shapes.Hint(bytes), lives[b].first, lives[b].last});
  };
  // Inputs exist before the first step that reads them.
  for (BufferId b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].kind == BufferKind::kInput && lives[b].first != kNever)
      add(b);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const int step = static_cast<int>(s);
    const absl::Span<const PlannedKernel> kernels = KernelsOf(plan.steps[s]);
    if (!kernels.empty()) {
      for (const InplacePair& pair : InplacePairs(kernels, plan.buffers)) {
        if (plan.buffers[pair.write].kind != BufferKind::kTemporary ||
            lives[pair.write].first != step || lives[pair.read].last != step ||
            block_of[pair.write] != kNever || block_of[pair.read] == kNever) {
          continue;
        }
        Block& block = blocks[static_cast<size_t>(block_of[pair.read])];
        if (block.last != step) continue;  // another buffer has taken it
        block.buffers.push_back(pair.write);
        block.last = lives[pair.write].last;
        // Keeps other buffers from taking it in this step.
        if (block.last == step) block.last = step + 1;
        block_of[pair.write] = block_of[pair.read];
      }
    }
    VisitStepBuffers(plan.steps[s], [&](BufferId b, bool) {
      if (lives[b].first == step && block_of[b] == kNever) add(b);
    });
  }
  return blocks;
}

bool LiveTogether(const Block& a, const Block& b) {
  return a.first <= b.last && b.first <= a.last;
}

struct Placed {
  int64_t offset;
  const Block* block;
};

// The lowest offset at which `block` fits between the blocks that are live with it.
int64_t LowestOffset(const Block& block, const std::vector<Placed>& placed) {
  int64_t offset = 0;
  for (const Placed& other : placed) {  // by offset
    if (!LiveTogether(block, *other.block)) continue;
    if (other.offset >= offset + block.hint_bytes) break;
    offset = std::max(offset, other.offset + other.block->hint_bytes);
  }
  return offset;
}

void Place(KernelPlan& plan, const Block& block, const SymExpr& offset) {
  for (const BufferId b : block.buffers) {
    plan.placements[b] = {
        .in_arena = true, .offset_bytes = offset, .bytes = block.bytes};
  }
}

struct Packing {
  std::vector<Placed> placed;  // by offset
  int64_t end = 0;
};

Packing PackInOrder(const std::vector<const Block*>& blocks) {
  Packing packing;
  for (const Block* block : blocks) {
    const int64_t offset = LowestOffset(*block, packing.placed);
    packing.placed.insert(
        std::upper_bound(
            packing.placed.begin(), packing.placed.end(), offset,
            [](int64_t at, const Placed& p) { return at < p.offset; }),
        {offset, block});
    packing.end = std::max(packing.end, offset + block->hint_bytes);
  }
  return packing;
}

// Tries several orders and returns the smallest packing, the first one of equals. Stops
// as soon as one needs no more than `least` bytes.
Packing Pack(std::vector<const Block*> blocks, int64_t least) {
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const Block* a, const Block* b) {
                     return a->hint_bytes > b->hint_bytes;
                   });
  Packing best = PackInOrder(blocks);
  const auto try_order = [&](auto less) {
    if (best.end <= least) return;
    std::stable_sort(blocks.begin(), blocks.end(), less);
    Packing packing = PackInOrder(blocks);
    if (packing.end < best.end) best = std::move(packing);
  };
  try_order([](const Block* a, const Block* b) {
    return a->last - a->first > b->last - b->first;
  });
  try_order([](const Block* a, const Block* b) {
    return a->hint_bytes * (a->last - a->first + 1) >
           b->hint_bytes * (b->last - b->first + 1);
  });
  try_order([](const Block* a, const Block* b) { return a->first < b->first; });
  try_order([](const Block* a, const Block* b) { return a->last > b->last; });
  return best;
}

// The maximum of several sums. It is a list so that maxima are never nested.
using Largest = std::vector<SymExpr>;
constexpr size_t kMostSums = 8;

void Include(Largest& largest, const SymExpr& sum, const ShapeEnv& shapes) {
  for (const SymExpr& other : largest) {
    if (shapes.KnownLe(sum, other)) return;
  }
  largest.erase(std::remove_if(largest.begin(), largest.end(),
                               [&](const SymExpr& other) {
                                 return shapes.KnownLe(other, sum);
                               }),
                largest.end());
  if (largest.size() < kMostSums) {
    largest.push_back(sum);
  } else {
    largest.back() +=
        sum;  // at least the larger of both, since neither is negative
  }
}

SymExpr ToExpr(const Largest& largest) {
  SymExpr e = 0;
  for (const SymExpr& sum : largest) e = e.Is(0) ? sum : Max(e, sum);
  return e;
}

// Computes offsets that are correct for all values of the symbols: each block begins at
// the largest end of the blocks that are live with it and lie below it at the hints.
SymExpr PlaceSymbolic(KernelPlan& plan, const std::vector<Placed>& placed) {
  std::vector<Largest> ends;
  Largest arena;
  for (size_t i = 0; i < placed.size(); ++i) {
    Largest offset;
    for (size_t k = 0; k < i; ++k) {
      if (!LiveTogether(*placed[i].block, *placed[k].block)) continue;
      for (const SymExpr& sum : ends[k]) Include(offset, sum, plan.shapes);
    }
    Place(plan, *placed[i].block, ToExpr(offset));
    if (offset.empty()) offset.push_back(0);
    for (SymExpr& sum : offset) {
      sum += placed[i].block->bytes;
      Include(arena, sum, plan.shapes);
    }
    ends.push_back(std::move(offset));
  }
  return ToExpr(arena);
}

int64_t PeakLiveBytes(const std::vector<Block>& blocks, size_t steps) {
  std::vector<int64_t> change(steps + 2, 0);
  for (const Block& block : blocks) {
    change[static_cast<size_t>(block.first)] += block.hint_bytes;
    change[std::min(static_cast<size_t>(block.last) + 1, steps + 1)] -=
        block.hint_bytes;
  }
  int64_t live = 0, peak = 0;
  for (const int64_t c : change) {
    live += c;
    peak = std::max(peak, live);
  }
  return peak;
}

// Gives large blocks their own memory, and blocks that are written in place of an input
// the memory of that input. Removes them from `blocks`.
void GiveOwnMemory(KernelPlan& plan, int64_t most_in_arena,
                   std::vector<Block>& blocks) {
  int next = 0;
  const auto large = [&](const Block& block) {
    const bool begins_with_input =
        plan.buffers[block.buffers[0]].kind == BufferKind::kInput;
    if (begins_with_input && block.buffers.size() == 1) return true;
    if (!begins_with_input && block.hint_bytes <= most_in_arena) return false;
    for (const BufferId b : block.buffers) {
      plan.placements[b] = {.own = next, .bytes = block.bytes};
    }
    ++next;
    return true;
  };
  blocks.erase(std::remove_if(blocks.begin(), blocks.end(), large),
               blocks.end());
}

}  // namespace

int64_t MostInArena(const Target& target) {
  return target.kind == TargetKind::kCuda ? int64_t{1} << 20
                                          : std::numeric_limits<int64_t>::max();
}

void PlanBuffers(KernelPlan& plan, int64_t most_in_arena) {
  plan.placements.assign(plan.buffers.size(), {});
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    plan.placements[b].bytes =
        Product(plan.buffers[b].sizes) * SizeInBytes(plan.buffers[b].dtype);
  }
  std::vector<Block> blocks = BlocksOf(plan, LifetimesOf(plan));
  GiveOwnMemory(plan, most_in_arena, blocks);
  plan.peak_live_bytes = PeakLiveBytes(blocks, plan.steps.size());
  std::vector<const Block*> order;
  bool constant = true;
  for (const Block& block : blocks) {
    order.push_back(&block);
    constant = constant && block.bytes.is_constant();
  }
  const Packing packing = Pack(std::move(order), plan.peak_live_bytes);
  if (!constant) {
    plan.arena_bytes = PlaceSymbolic(plan, packing.placed);
    return;
  }
  for (const Placed& placed : packing.placed) {
    Place(plan, *placed.block, placed.offset);
  }
  plan.arena_bytes = packing.end;
}

}  // namespace kiln
