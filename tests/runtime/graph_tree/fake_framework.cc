#include "tests/runtime/graph_tree/fake_framework.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "tests/runtime/graph_tree/fake_recording.h"

namespace kiln::graph_tree {
namespace {

constexpr int64_t kCells = 1 << 16;

struct FakePoolState : PoolState {
  FakeArena::Blocks blocks;
};

FakeStorage* Get(Storage storage) { return static_cast<FakeStorage*>(storage); }

void EndMemory(FakeStorage& storage) {
  if (storage.owner != nullptr) storage.owner->Free(storage.address);
  storage.owner = nullptr;
}

void EndStorage(FakeStorage* storage) {
  if (storage->tensors == 0 && storage->watchers == 0) delete storage;
}

}  // namespace

FakeTensor::FakeTensor(FakeStorage* storage, int64_t offset, int64_t cells)
    : storage_(storage), offset_(offset), cells_(cells) {
  ++storage_->tensors;
}

FakeTensor::~FakeTensor() {
  if (--storage_->tensors == 0) EndMemory(*storage_);
  EndStorage(storage_);
}

FakeFramework::FakeFramework(Reuse reuse)
    : reuse_(reuse), general_(kCells, reuse) {
  pools_.emplace_back(kCells, reuse);
}

FakeTensorPtr FakeFramework::New(int64_t cells) {
  FakeArena& arena = in_pool_ ? pool() : general_;
  auto* storage = new FakeStorage;
  if (cells > 0) {
    storage->owner = &arena;
    storage->address = arena.Allocate(cells);
  }
  return std::make_shared<FakeTensor>(storage, 0, cells);
}

void FakeFramework::Launch(Kernel kernel) {
  if (capture_ != nullptr) {
    capture_->push_back(std::move(kernel));
  } else {
    kernel();
  }
}

FakeTensorPtr FakeFramework::Affine(const FakeTensors& inputs, int64_t a,
                                    int64_t b, int64_t cells) {
  FakeTensorPtr result = New(cells);
  std::vector<std::pair<const int64_t*, int64_t>> from;
  for (const FakeTensorPtr& input : inputs) {
    if (input->cells() > 0) from.push_back({input->address(), input->cells()});
  }
  Launch([from, a, b, to = result->address(), cells] {
    for (int64_t i = 0; i < cells; ++i) {
      int64_t sum = 0;
      for (const auto& [address, size] : from) sum += address[i % size];
      to[i] = (a * sum + b) % 1000003;
    }
  });
  return result;
}

void FakeFramework::AddInPlace(const FakeTensorPtr& to, int64_t value) {
  Launch([address = to->address(), cells = to->cells(), value] {
    for (int64_t i = 0; i < cells; ++i) address[i] += value;
  });
}

FakeTensorPtr FakeFramework::View(const FakeTensorPtr& of, int64_t offset,
                                  int64_t cells) {
  return std::make_shared<FakeTensor>(of->storage(), of->offset() + offset,
                                      cells);
}

absl::StatusOr<std::vector<int64_t>> FakeFramework::Read(
    const FakeTensorPtr& tensor) const {
  if (!tensor->storage()->error.empty()) {
    return absl::InternalError(tensor->storage()->error);
  }
  return std::vector<int64_t>(tensor->address(),
                              tensor->address() + tensor->cells());
}

absl::StatusOr<std::unique_ptr<PoolState>> FakeFramework::Checkpoint() {
  auto state = std::make_unique<FakePoolState>();
  state->blocks = pool().blocks();
  return state;
}

absl::Status FakeFramework::Restore(const PoolState& state,
                                    absl::Span<const Storage> live) {
  pool().SetBlocks(static_cast<const FakePoolState&>(state).blocks);
  const auto blocks = pool().AllocatedBlocks();
  std::set<Storage> seen;
  for (const Storage storage : live) {
    EXPECT_TRUE(seen.insert(storage).second) << "a storage twice";
    EXPECT_GT(Get(storage)->tensors, 0) << "a dead storage";
    EXPECT_EQ(Get(storage)->owner, nullptr) << "its block has an owner";
    EXPECT_EQ(std::count(blocks.begin(), blocks.end(), Get(storage)->address),
              1)
        << "a live storage without a block";
    Get(storage)->owner = &pool();
  }
  return absl::OkStatus();
}

absl::Status FakeFramework::Free(const void* address) {
  pool().Free(static_cast<const int64_t*>(address));
  return absl::OkStatus();
}

bool FakeFramework::TakeAnother() {
  if (loses_pools_) pools_.emplace_back(kCells, reuse_);
  return loses_pools_;
}

std::vector<const void*> FakeFramework::PoolBlocks() const {
  std::vector<const void*> all;
  for (const FakeArena& pool : pools_) {
    const std::vector<const void*> blocks = pool.AllocatedBlocks();
    all.insert(all.end(), blocks.begin(), blocks.end());
  }
  return all;
}

absl::StatusOr<std::vector<const void*>> FakeFramework::AllocatedBlocks() {
  return pool().AllocatedBlocks();
}

void FakeFramework::Watch(Storage storage) { ++Get(storage)->watchers; }

void FakeFramework::Unwatch(Storage storage) {
  --Get(storage)->watchers;
  EndStorage(Get(storage));
}

bool FakeFramework::IsLive(Storage storage, Tensor cached) const {
  if (cached == nullptr) return Get(storage)->tensors > 0;
  const auto& tensor = *static_cast<const FakeTensorPtr*>(cached);
  return tensor.use_count() > 1 || Get(storage)->tensors > 1;
}

void FakeFramework::Invalidate(Storage storage, absl::string_view text) {
  EXPECT_GT(Get(storage)->tensors, 0) << "a dead storage";
  EndMemory(*Get(storage));
  Get(storage)->error = std::string(text);
}

absl::StatusOr<FakeTensors> FakeFramework::RunBody(const Function& function,
                                                   FakeTensors inputs) {
  if (!failure_.ok()) return std::exchange(failure_, absl::OkStatus());
  ++bodies_run_;
  return (*static_cast<const FakeBody*>(function.body))(*this,
                                                        std::move(inputs));
}

absl::Status FakeFramework::KeepGradients(Call& call,
                                          absl::Span<const Storage> storages) {
  for (FakeTensorPtr* gradient : gradients) {
    if (*gradient == nullptr || std::count(storages.begin(), storages.end(),
                                           (*gradient)->storage()) == 0) {
      continue;
    }
    *gradient = Affine({*gradient}, 1, 0, (*gradient)->cells());
  }
  return absl::OkStatus();
}

absl::Status FakeFramework::RunPlainly(const Function& function, Call& call) {
  auto& caller = *static_cast<FakeCall*>(call.caller);
  ASSIGN_OR_RETURN(caller.outputs, RunBody(function, std::move(caller.inputs)));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Output>> FakeFramework::WarmUp(
    const Function& function, Call& call) {
  auto& caller = *static_cast<FakeCall*>(call.caller);
  in_pool_ = true;
  const auto done = absl::MakeCleanup([this] { in_pool_ = false; });
  ASSIGN_OR_RETURN(caller.outputs, RunBody(function, std::move(caller.inputs)));
  std::vector<Output> outputs;
  for (const FakeTensorPtr& output : caller.outputs) {
    outputs.push_back(OutputOf(output));
  }
  return outputs;
}

absl::StatusOr<std::unique_ptr<Recording>> FakeFramework::Record(
    const Function& function, Call& call, absl::Span<const InputUse> uses) {
  auto recording = std::make_unique<FakeRecording>(*this);
  FakeTensors inputs = std::move(static_cast<FakeCall*>(call.caller)->inputs);
  in_pool_ = true;
  capture_ = &recording->kernels_;
  const auto done = absl::MakeCleanup([this] {
    in_pool_ = false;
    capture_ = nullptr;
  });
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (uses[i] == InputUse::kCopied) recording->TakeIntoPool(i, inputs[i]);
  }
  ASSIGN_OR_RETURN(FakeTensors outputs, RunBody(function, std::move(inputs)));
  recording->SetOutputs(std::move(outputs));
  return recording;
}

void FakeFramework::DropInput(Call& call, int input) {
  static_cast<FakeCall*>(call.caller)->inputs[input] = nullptr;
}

Input InputOf(const FakeTensorPtr& tensor) {
  if (tensor == nullptr) return {};
  return {true, tensor->address(), tensor->storage(),
          tensor->storage()->address};
}

Output OutputOf(const FakeTensorPtr& tensor) {
  if (tensor == nullptr) return {};
  return {true, tensor->storage()->on_device, tensor->storage()->address,
          tensor->storage()};
}

}  // namespace kiln::graph_tree
