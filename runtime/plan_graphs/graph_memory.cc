#include "runtime/plan_graphs/graph_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "runtime/memory_walk.h"

namespace kiln {
namespace {

struct BlocksThen final : graph_tree::PoolState {
  explicit BlocksThen(kiln::PoolState s) : state(std::move(s)) {}
  const kiln::PoolState state;
};

}  // namespace

// Lives as long as the results do.
struct GraphMemory::Books {
  std::shared_ptr<CachingAllocator> allocator;
  PoolId pool = kSharedPool;
  Mutex mu;
  // Storages that are live, by their owner's address.
  absl::flat_hash_map<const void*, Entry*> live ABSL_GUARDED_BY(mu);
  // The same by their memory's address, the last made last: older ones are of
  // earlier steps.
  absl::flat_hash_map<const void*, std::vector<Entry*>> at ABSL_GUARDED_BY(mu);
  std::atomic<int64_t> invalid = 0;  // live storages that were invalidated
  CondVar died;                      // one that was live

  void FreeBlock(const void* address) {
    allocator->Free(const_cast<void*>(address), 0, nullptr);
  }
};

// A storage's identity: stays while it is live or watched.
struct GraphMemory::Entry {
  std::weak_ptr<Held> held;
  const void* address = nullptr;
  std::atomic<bool> live = true;  // false: its block has been given back
  int watchers = 0;
};

// What tensors share.
struct GraphMemory::Held {
  Held(std::shared_ptr<Books> b, Entry* e, bool frees)
      : books(std::move(b)), entry(e), frees_block(frees) {}
  ~Held() {
    bool last = false;
    {
      MutexLock lock(&books->mu);
      books->live.erase(this);
      const auto here = books->at.find(entry->address);
      std::erase(here->second, entry);
      if (here->second.empty()) books->at.erase(here);
      if (!invalid.empty()) --books->invalid;
      last = entry->watchers == 0;
      // Under the lock: behind it a Restore might have given the block to others.
      if (frees_block) books->FreeBlock(entry->address);
      entry->live = false;
      books->died.SignalAll();
    }
    if (last) delete entry;
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  const std::shared_ptr<Books> books;
  Entry* const entry;
  // Under books->mu.
  bool frees_block;
  std::string invalid;  // why it is; empty: it is not
};

GraphMemory::GraphMemory(std::shared_ptr<CachingAllocator> allocator)
    : books_(std::make_shared<Books>()) {
  books_->pool = allocator->MakePool();
  books_->allocator = std::move(allocator);
}

GraphMemory::~GraphMemory() { books_->allocator->RetirePool(books_->pool); }

CachingAllocator& GraphMemory::allocator() const { return *books_->allocator; }

PoolId GraphMemory::pool() const { return books_->pool; }

std::shared_ptr<void> GraphMemory::NewStorage(const void* address,
                                              Block block) {
  auto* const entry = new Entry();
  entry->address = address;
  auto held = std::make_shared<Held>(books_, entry, block == Block::kFreed);
  entry->held = held;
  MutexLock lock(&books_->mu);
  books_->live[held.get()] = entry;
  books_->at[address].push_back(entry);
  return held;
}

void GraphMemory::Adopt(absl::Span<OutputValue> results) {
  absl::flat_hash_map<const void*, std::shared_ptr<void>> storages;
  for (OutputValue& result : results) {
    auto* const tensor = std::get_if<Tensor>(&result);
    if (tensor == nullptr) continue;
    auto* const allocated = std::get_deleter<RunMemoryDeleter>(tensor->owner);
    if (allocated == nullptr) continue;
    std::shared_ptr<void>& storage = storages[tensor->owner.get()];
    if (storage == nullptr) {
      storage = NewStorage(tensor->owner.get(), Block::kFreed);
      allocated->allocator = nullptr;  // the storage frees it
    }
    tensor->owner = storage;
  }
}

graph_tree::Storage GraphMemory::StorageOf(const Tensor& tensor) const {
  if (tensor.owner == nullptr) return nullptr;
  MutexLock lock(&books_->mu);
  const auto at = books_->live.find(tensor.owner.get());
  return at == books_->live.end() ? nullptr : at->second;
}

std::shared_ptr<void> GraphMemory::OwnerOf(graph_tree::Storage storage) {
  return static_cast<Entry*>(storage)->held.lock();
}

std::shared_ptr<void> GraphMemory::OwnerAt(const void* address) const {
  MutexLock lock(&books_->mu);
  const auto here = books_->at.find(address);
  return here == books_->at.end() ? nullptr : here->second.back()->held.lock();
}

bool GraphMemory::HasInvalid() const { return books_->invalid > 0; }

absl::Status GraphMemory::CheckValid(const Tensor& tensor) const {
  MutexLock lock(&books_->mu);
  const auto at = books_->live.find(tensor.owner.get());
  if (at == books_->live.end()) return absl::OkStatus();
  const Held& held = *static_cast<const Held*>(at->first);
  if (held.invalid.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(held.invalid);
}

absl::StatusOr<std::unique_ptr<graph_tree::PoolState>>
GraphMemory::Checkpoint() {
  return std::make_unique<BlocksThen>(books_->allocator->State(books_->pool));
}

absl::Status GraphMemory::Restore(const graph_tree::PoolState& state,
                                  absl::Span<const graph_tree::Storage> live) {
  std::vector<std::shared_ptr<Held>> held;  // goes without the lock
  std::vector<const void*> ownerless;       // blocks of those that have died
  for (const graph_tree::Storage storage : live) {
    const Entry& entry = *static_cast<Entry*>(storage);
    held.push_back(entry.held.lock());
    if (held.back() == nullptr) ownerless.push_back(entry.address);
  }
  MutexLock lock(&books_->mu);
  const absl::Status set = books_->allocator->SetState(
      books_->pool, static_cast<const BlocksThen&>(state).state);
  if (!set.ok()) return set;
  // What others still hold lies in blocks that are not theirs any more.
  for (const auto& [other, entry] : books_->live) {
    static_cast<Held*>(const_cast<void*>(other))->frees_block = false;
  }
  for (const std::shared_ptr<Held>& storage : held) {
    if (storage != nullptr) storage->frees_block = true;
  }
  for (const void* address : ownerless) books_->FreeBlock(address);
  return absl::OkStatus();
}

absl::Status GraphMemory::Free(const void* address) {
  books_->FreeBlock(address);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<const void*>> GraphMemory::AllocatedBlocks() {
  std::vector<const void*> blocks;
  for (const PoolSegment& segment : books_->allocator->State(books_->pool)) {
    for (const auto& [offset, block] : segment.blocks) {
      if (block.allocated) blocks.push_back(segment.base + offset);
    }
  }
  return blocks;
}

std::string GraphMemory::OriginOf(absl::Span<const void* const> blocks) {
  std::string text;
  for (const PoolSegment& segment : books_->allocator->State(books_->pool)) {
    for (const auto& [offset, block] : segment.blocks) {
      const void* const address = segment.base + offset;
      if (block.allocated && !block.holder.empty() &&
          std::find(blocks.begin(), blocks.end(), address) != blocks.end()) {
        absl::StrAppend(&text, text.empty() ? "" : "\n", block.bytes,
                        " bytes of ", block.holder);
      }
    }
  }
  return text;
}

void GraphMemory::Watch(graph_tree::Storage storage) {
  MutexLock lock(&books_->mu);
  ++static_cast<Entry*>(storage)->watchers;
}

void GraphMemory::Unwatch(graph_tree::Storage storage) {
  auto* const entry = static_cast<Entry*>(storage);
  bool last = false;
  {
    MutexLock lock(&books_->mu);
    last = --entry->watchers == 0 && !entry->live;
  }
  if (last) delete entry;
}

bool GraphMemory::IsLive(graph_tree::Storage storage,
                         graph_tree::Tensor cached) const {
  const Entry& entry = *static_cast<Entry*>(storage);
  const long own = cached == nullptr ? 0 : 1;
  const long uses = entry.held.use_count();
  if (uses > 0 || !entry.live) return uses > own;
  // Another thread is about to give its block back.
  MutexLock lock(&books_->mu);
  while (entry.live) books_->died.Wait(&books_->mu);
  return false;
}

int64_t GraphMemory::UsesOf(graph_tree::Storage storage) {
  return static_cast<Entry*>(storage)->held.use_count();
}

void GraphMemory::Invalidate(graph_tree::Storage storage,
                             absl::string_view text) {
  auto* const entry = static_cast<Entry*>(storage);
  const std::shared_ptr<Held> held = entry->held.lock();
  if (held == nullptr) return;
  bool frees = false;
  {
    MutexLock lock(&books_->mu);
    frees = std::exchange(held->frees_block, false);
    if (held->invalid.empty()) ++books_->invalid;
    held->invalid = std::string(text);
  }
  if (frees) books_->FreeBlock(entry->address);
}

}  // namespace kiln
