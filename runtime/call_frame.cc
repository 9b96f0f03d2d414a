#include "runtime/call_frame.h"

#include <utility>

#include "proto/base/status.h"

namespace kiln {

CallFrame::CallFrame(const BoundPlan& plan, std::shared_ptr<Device> on)
    : device(std::move(on)),
      symbols(plan.plan->symbols.size()),
      values(plan.values),
      bases(plan.plan->buffers.size() + 2),
      owners(plan.plan->buffers.size()),
      calls(plan.steps.size()),
      pointers(plan.most_pointers),
      scalars(plan.most_scalars) {}

CallFrame::~CallFrame() {
  FreeWorkspace(stream);
  FreeArena(stream);
  FreeCounters(stream);
  FreeSeedSlot(stream);
}

absl::Status CallFrame::ReserveArena(int64_t bytes, Stream on,
                                     Allocator* from) {
  if (from == nullptr && bytes <= arena_bytes) return absl::OkStatus();
  FreeArena(on);
  if (bytes == 0) return absl::OkStatus();
  Allocator& allocator = from != nullptr ? *from : device->allocator();
  ASSIGN_OR_RETURN(void* const memory, allocator.Allocate(bytes, on));
  arena = static_cast<char*>(memory);
  arena_bytes = bytes;
  lender = from;
  return absl::OkStatus();
}

absl::Status CallFrame::ReserveWorkspace(int64_t bytes, Stream on,
                                         Allocator& of) {
  if (bytes <= workspace_bytes) return absl::OkStatus();
  FreeWorkspace(on);
  ASSIGN_OR_RETURN(void* const memory, of.Allocate(bytes, on));
  workspace = static_cast<char*>(memory);
  workspace_bytes = bytes;
  workspace_of = &of;
  return absl::OkStatus();
}

void CallFrame::FreeWorkspace(Stream on) {
  if (workspace == nullptr) return;
  workspace_of->Free(workspace, workspace_bytes, on);
  workspace = nullptr;
  workspace_bytes = 0;
  workspace_of = nullptr;
}

absl::Status CallFrame::ReserveCounters(int64_t bytes, Stream on) {
  if (bytes <= counter_bytes) return absl::OkStatus();
  FreeCounters(on);
  ASSIGN_OR_RETURN(void* const memory, device->allocator().Allocate(bytes, on));
  counters = static_cast<char*>(memory);
  counter_bytes = bytes;
  return device->Fill(counters, 1, bytes, 0, on);
}

void CallFrame::FreeCounters(Stream on) {
  if (counters == nullptr) return;
  device->allocator().Free(counters, counter_bytes, on);
  counters = nullptr;
  counter_bytes = 0;
}

absl::Status CallFrame::ReserveSeedSlot(Stream on) {
  if (seed_slot != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(void* const memory,
                   device->allocator().Allocate(sizeof(uint64_t), on));
  seed_slot = static_cast<char*>(memory);
  return absl::OkStatus();
}

void CallFrame::FreeSeedSlot(Stream on) {
  if (seed_slot == nullptr) return;
  device->allocator().Free(seed_slot, sizeof(uint64_t), on);
}

void CallFrame::ReturnLent(Stream on) {
  FreeWorkspace(on);
  if (lender != nullptr) FreeArena(on);
}

void CallFrame::FreeArena(Stream on) {
  if (arena == nullptr) return;
  Allocator& allocator = lender != nullptr ? *lender : device->allocator();
  allocator.Free(arena, arena_bytes, on);
  arena = nullptr;
  arena_bytes = 0;
  lender = nullptr;
}

FramePool::~FramePool() {
  for (std::atomic<CallFrame*>& slot : waiting_) delete slot.exchange(nullptr);
}

absl::StatusOr<std::unique_ptr<CallFrame>> FramePool::Borrow(Stream stream) {
  for (std::atomic<CallFrame*>& slot : waiting_) {
    if (slot.load(std::memory_order_relaxed) == nullptr) continue;
    std::unique_ptr<CallFrame> frame(
        slot.exchange(nullptr, std::memory_order_acquire));
    if (frame == nullptr) continue;
    if (frame->stream != stream) {
      RETURN_IF_ERROR(frame->finished->Wait(stream));
      frame->stream = stream;
    }
    return frame;
  }
  auto frame = std::make_unique<CallFrame>(plan_, device_);
  ASSIGN_OR_RETURN(frame->finished, device_->MakeMarker());
  frame->stream = stream;
  return frame;
}

void FramePool::Return(std::unique_ptr<CallFrame> frame, Stream stream) {
  for (const MemoryEvent& take : plan_.memory.takes) {
    frame->owners[take.subject].reset();
  }
  frame->ReturnLent(stream);
  // Without its mark the frame's memory could be handed to another stream too
  // early. What was lent is the lender's to order.
  const bool marked = (frame->arena == nullptr && frame->counters == nullptr &&
                       frame->seed_slot == nullptr) ||
                      frame->finished->Record(stream).ok();
  if (!marked) return;
  for (std::atomic<CallFrame*>& slot : waiting_) {
    CallFrame* empty = nullptr;
    if (slot.compare_exchange_strong(empty, frame.get(),
                                     std::memory_order_release,
                                     std::memory_order_relaxed)) {
      frame.release();
      return;
    }
  }
}

}  // namespace kiln
