#ifndef KILN_TESTS_RUNTIME_GRAPH_TREE_FAKE_FRAMEWORK_H_
#define KILN_TESTS_RUNTIME_GRAPH_TREE_FAKE_FRAMEWORK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/graph_tree/liveness.h"
#include "runtime/graph_tree/pool.h"
#include "runtime/graph_tree/recorder.h"
#include "tests/runtime/graph_tree/fake_arena.h"

// A small tensor framework on the host, for trees without a device: storages
// with weak references, a pool with checkpoints, captures that compute nothing.

namespace kiln::graph_tree {

struct FakeStorage {
  FakeArena* owner = nullptr;  // frees the memory at the end; null: nobody
  int64_t* address = nullptr;
  int tensors = 0;
  int watchers = 0;
  bool on_device = true;
  std::string error;  // of any access; empty: none
};

// A view of a storage. Shared by reference, as a framework's tensor objects.
class FakeTensor {
 public:
  FakeTensor(FakeStorage* storage, int64_t offset, int64_t cells);
  ~FakeTensor();
  FakeTensor(const FakeTensor&) = delete;

  FakeStorage* storage() const { return storage_; }
  int64_t offset() const { return offset_; }
  int64_t cells() const { return cells_; }
  int64_t* address() const { return storage_->address + offset_; }

 private:
  FakeStorage* storage_;
  int64_t offset_;
  int64_t cells_;
};
using FakeTensorPtr = std::shared_ptr<FakeTensor>;  // null: None
using FakeTensors = std::vector<FakeTensorPtr>;

class FakeFramework;
// A compiled function. Takes its inputs out of the list as it is done with
// them.
using FakeBody = std::function<FakeTensors(FakeFramework&, FakeTensors)>;

// What Call::caller points to.
struct FakeCall {
  FakeTensors inputs;
  FakeTensors outputs;
};

class FakeFramework : public Pool, public Liveness, public Recorder {
 public:
  explicit FakeFramework(Reuse reuse = Reuse::kYes);

  // Operators. Each result's cell is `a` times the sum of the inputs' cells,
  // read round and round, plus `b`.
  FakeTensorPtr Affine(const FakeTensors& inputs, int64_t a, int64_t b,
                       int64_t cells);
  void AddInPlace(const FakeTensorPtr& to, int64_t value);
  FakeTensorPtr View(const FakeTensorPtr& of, int64_t offset, int64_t cells);
  FakeTensorPtr Full(int64_t cells, int64_t value) {
    return Affine({}, 0, value, cells);
  }
  // What the user sees; an error where the storage says one.
  absl::StatusOr<std::vector<int64_t>> Read(const FakeTensorPtr& tensor) const;

  // Pool
  absl::StatusOr<std::unique_ptr<PoolState>> Checkpoint() override;
  absl::Status Restore(const PoolState& state,
                       absl::Span<const Storage> live) override;
  absl::Status Free(const void* address) override;
  bool TakeAnother() override;
  absl::StatusOr<std::vector<const void*>> AllocatedBlocks() override;
  std::string OriginOf(absl::Span<const void* const>) override {
    return origin;
  }

  // Liveness
  void Watch(Storage storage) override;
  void Unwatch(Storage storage) override;
  bool IsLive(Storage storage, Tensor cached) const override;
  void Invalidate(Storage storage, absl::string_view text) override;

  // Recorder
  absl::Status ChangeThread() override {
    ++thread_changes;
    return change_of_thread;
  }
  absl::Status KeepGradients(Call& call,
                             absl::Span<const Storage> storages) override;
  absl::Status RunPlainly(const Function& function, Call& call) override;
  absl::StatusOr<std::vector<Output>> WarmUp(const Function& function,
                                             Call& call) override;
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      const Function& function, Call& call,
      absl::Span<const InputUse> uses) override;
  void DropInput(Call& call, int input) override;

  // The next run of a body ends with this, and gives nothing.
  void FailNext(absl::Status status) { failure_ = std::move(status); }
  // From now on a pool in which something has failed is of no more use.
  void LosePools() { loses_pools_ = true; }
  int bodies_run() const { return bodies_run_; }
  int thread_changes = 0;
  absl::Status change_of_thread;                // what one ends with
  std::string origin;                           // of all blocks
  std::vector<FakeTensorPtr*> gradients;        // that parameters keep
  std::vector<const void*> PoolBlocks() const;  // of all pools there were

 private:
  friend class FakeRecording;
  using Kernel = std::function<void()>;

  FakeTensorPtr New(int64_t cells);
  absl::StatusOr<FakeTensors> RunBody(const Function& function,
                                      FakeTensors inputs);
  void Launch(Kernel kernel);

  FakeArena& pool() { return pools_.back(); }

  const Reuse reuse_;
  std::deque<FakeArena> pools_;
  FakeArena general_;
  bool in_pool_ = false;
  std::vector<Kernel>* capture_ = nullptr;
  absl::Status failure_;
  bool loses_pools_ = false;
  int bodies_run_ = 0;
};

// What the tree is told of tensors.
Input InputOf(const FakeTensorPtr& tensor);
Output OutputOf(const FakeTensorPtr& tensor);

}  // namespace kiln::graph_tree

#endif  // KILN_TESTS_RUNTIME_GRAPH_TREE_FAKE_FRAMEWORK_H_
