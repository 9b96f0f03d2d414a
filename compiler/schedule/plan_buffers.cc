#include "compiler/schedule/plan_buffers.h"

#include <algorithm>
#include <vector>

#include "compiler/schedule/inplace_reuse.h"

namespace kiln {

namespace {

constexpr int kNever = -1;

// Buffers that share memory because each took it from the one before.
struct Block {
  std::vector<BufferId> buffers;
  SymExpr bytes = 0;  // rounded up
  int64_t hint_bytes = 0;
  int first = 0;  // step
  int last = 0;
};

struct Lifetime {
  int first = kNever;
  int last = kNever;
};

template <typename Visit>
void VisitBuffers(const PlannedStep& step, Visit visit) {
  if (const auto* kernel = std::get_if<PlannedKernel>(&step)) {
    for (const ScalarNode& node : kernel->nest.body) {
      if (node.op == ScalarOp::kLoad) visit(node.buffer);
    }
    for (const Store& store : kernel->nest.stores) visit(store.buffer);
  } else if (const auto* call = std::get_if<ExternCall>(&step)) {
    for (const View& view : call->inputs) visit(view.buffer);
    for (const View& view : call->outputs) visit(view.buffer);
  } else {
    visit(std::get<Fill>(step).buffer);
  }
}

std::vector<Lifetime> LifetimesOf(const KernelPlan& plan) {
  std::vector<Lifetime> lives(plan.buffers.size());
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    VisitBuffers(plan.steps[s], [&](BufferId b) {
      if (plan.buffers[b].kind != BufferKind::kTemporary) return;
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

// Joins temporaries that share memory in place; one block each to begin with.
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
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const int step = static_cast<int>(s);
    if (const auto* kernel = std::get_if<PlannedKernel>(&plan.steps[s])) {
      for (const InplacePair& pair : InplacePairs(kernel->nest, plan.buffers)) {
        if (plan.buffers[pair.write].kind != BufferKind::kTemporary ||
            lives[pair.write].first != step || lives[pair.read].last != step ||
            block_of[pair.write] != kNever || block_of[pair.read] == kNever) {
          continue;
        }
        Block& block = blocks[static_cast<size_t>(block_of[pair.read])];
        if (block.last != step) continue;  // another took it already
        block.buffers.push_back(pair.write);
        block.last = lives[pair.write].last;
        // Not to be taken twice in this very step.
        if (block.last == step) block.last = step + 1;
        block_of[pair.write] = block_of[pair.read];
      }
    }
    VisitBuffers(plan.steps[s], [&](BufferId b) {
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

// Lowest offset at which `block` fits between those that live with it.
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
    plan.placements[b] = {true, offset, block.bytes};
  }
}

int64_t PlaceConstantSizes(KernelPlan& plan,
                           const std::vector<const Block*>& blocks) {
  std::vector<Placed> placed;
  int64_t end = 0;
  for (const Block* block : blocks) {
    const int64_t offset = LowestOffset(*block, placed);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [](int64_t at, const Placed& p) {
                                     return at < p.offset;
                                   }),
                  {offset, block});
    end = std::max(end, offset + block->hint_bytes);
    Place(plan, *block, offset);
  }
  return end;
}

struct Slot {
  SymExpr offset = 0;
  SymExpr bytes = 0;
  std::vector<const Block*> blocks;
};

// Places blocks of symbolic size from `start` on; gives the end of all.
SymExpr PlaceSymbolicSizes(KernelPlan& plan,
                           const std::vector<const Block*>& blocks,
                           SymExpr start) {
  std::vector<Slot> slots;
  for (const Block* block : blocks) {
    Slot* chosen = nullptr;
    for (Slot& slot : slots) {
      if (!plan.shapes.KnownLe(block->bytes, slot.bytes)) continue;
      const bool free = std::none_of(
          slot.blocks.begin(), slot.blocks.end(),
          [&](const Block* other) { return LiveTogether(*block, *other); });
      if (free) {
        chosen = &slot;
        break;
      }
    }
    if (chosen == nullptr) {
      slots.push_back({start, block->bytes, {}});
      start += block->bytes;
      chosen = &slots.back();
    }
    chosen->blocks.push_back(block);
    Place(plan, *block, chosen->offset);
  }
  return start;
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

}  // namespace

void PlanBuffers(KernelPlan& plan) {
  plan.placements.assign(plan.buffers.size(), {});
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    plan.placements[b].bytes =
        Product(plan.buffers[b].sizes) * SizeInBytes(plan.buffers[b].dtype);
  }
  const std::vector<Block> blocks = BlocksOf(plan, LifetimesOf(plan));
  std::vector<const Block*> constant, symbolic;
  for (const Block& block : blocks) {
    (block.bytes.is_constant() ? constant : symbolic).push_back(&block);
  }
  const auto larger = [](const Block* a, const Block* b) {
    if (a->hint_bytes != b->hint_bytes) return a->hint_bytes > b->hint_bytes;
    return a->buffers[0] < b->buffers[0];
  };
  std::sort(constant.begin(), constant.end(), larger);
  std::sort(symbolic.begin(), symbolic.end(), larger);
  const int64_t end = PlaceConstantSizes(plan, constant);
  plan.arena_bytes = PlaceSymbolicSizes(plan, symbolic, end);
  plan.peak_live_bytes = PeakLiveBytes(blocks, plan.steps.size());
}

}  // namespace kiln
