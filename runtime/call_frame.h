#ifndef KILN_RUNTIME_CALL_FRAME_H_
#define KILN_RUNTIME_CALL_FRAME_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/bind_launches.h"
#include "runtime/device.h"
#include "runtime/extern_site.h"

namespace kiln {

// All the memory of one call but its outputs: the arena, and the numbers and
// addresses that are worked out on the way. One thread at a time.
struct CallFrame {
  CallFrame(const BoundPlan& plan, std::shared_ptr<Device> on);
  ~CallFrame();
  CallFrame(const CallFrame&) = delete;
  CallFrame& operator=(const CallFrame&) = delete;

  // Sees to an arena of `bytes`. With a `lender` it is that one's, for this call
  // alone; without, the device's own, and a larger one is kept.
  //
  // RESOURCE_EXHAUSTED  no memory on the device
  absl::Status ReserveArena(int64_t bytes, Stream stream, Allocator* lender);

  // Sees to `bytes` that library calls write beside their results: memory of `of`,
  // for this call alone. They follow one another on the stream, so what the
  // largest needs serves all. What is there already stays if it is as large.
  //
  // RESOURCE_EXHAUSTED  no memory on the device
  absl::Status ReserveWorkspace(int64_t bytes, Stream stream, Allocator& of);

  // Sees to `bytes` of counters: memory of the device's own that is zero before a
  // call and that each call leaves at zero.
  //
  // RESOURCE_EXHAUSTED  no memory on the device
  absl::Status ReserveCounters(int64_t bytes, Stream stream);

  // Sees to 8 bytes for a random seed, likewise.
  absl::Status ReserveSeedSlot(Stream stream);

  // Gives back what is for one call alone, once all its work is on `stream`: the
  // workspace, and what a lender lent.
  void ReturnLent(Stream stream);

  std::shared_ptr<Device> device;
  std::vector<int64_t> symbols;
  std::vector<int64_t> values;  // of the plan's expressions, and 0
  std::vector<char*> bases;     // of its buffers, seed slot, workspace
  std::vector<std::shared_ptr<void>> owners;  // of outputs and own memory
  // Library calls, ready for this call's shapes, or why not; by step. They stay
  // until the frame's next call, so no shape of its own is dropped under a call.
  std::vector<absl::StatusOr<std::shared_ptr<const ExternSite::Shape>>> calls;
  std::vector<void*> pointers;   // room for any launch
  std::vector<int64_t> scalars;  // likewise
  char* arena = nullptr;
  int64_t arena_bytes = 0;
  char* workspace = nullptr;
  int64_t workspace_bytes = 0;
  char* counters = nullptr;
  int64_t counter_bytes = 0;
  char* seed_slot = nullptr;
  Allocator* lender = nullptr;  // of the arena; null: the device's own
  Allocator* workspace_of = nullptr;
  Stream stream = nullptr;           // that the last call used
  std::unique_ptr<Marker> finished;  // the end of that call

 private:
  void FreeArena(Stream on);
  void FreeWorkspace(Stream on);
  void FreeCounters(Stream on);
  void FreeSeedSlot(Stream on);
};

// Frames that wait for their next call: at most kKept, each with its arena, if
// no caller lent memory.
// Borrowing takes no lock. Thread-safe.
class FramePool {
 public:
  // Calls at once that find an arena waiting. More than a program has streams
  // is memory held for nothing.
  static constexpr int kKept = 8;

  FramePool(const BoundPlan& plan, std::shared_ptr<Device> device)
      : plan_(plan), device_(std::move(device)) {}
  ~FramePool();

  // A frame whose arena work on `stream` may use: work of its last call, if
  // that was on another stream, is waited for by `stream`.
  absl::StatusOr<std::unique_ptr<CallFrame>> Borrow(Stream stream);

  // Takes a frame back once all work of its call is on `stream`.
  void Return(std::unique_ptr<CallFrame> frame, Stream stream);

 private:
  const BoundPlan& plan_;
  const std::shared_ptr<Device> device_;
  std::array<std::atomic<CallFrame*>, kKept> waiting_{};
};

}  // namespace kiln

#endif  // KILN_RUNTIME_CALL_FRAME_H_
