#ifndef KILN_RUNTIME_GRAPH_TREE_LIVENESS_H_
#define KILN_RUNTIME_GRAPH_TREE_LIVENESS_H_

#include <memory>
#include <utility>

#include "absl/strings/string_view.h"

// Who still holds the memory that a recorded graph writes: weak references to
// the storage objects of a framework, or of the C++ session.

namespace kiln::graph_tree {

// A storage object of the framework: owns one block of memory, and any number
// of tensors view it. Compared by identity; null for "no storage".
using Storage = void*;
// A tensor object of the framework, held by a recording as an output that it
// gives back again and again.
using Tensor = void*;

class Liveness {
 public:
  virtual ~Liveness() = default;

  // Takes and drops one weak reference. While one is held, the storage may die
  // but its identity is given to no other.
  virtual void Watch(Storage storage) = 0;
  virtual void Unwatch(Storage storage) = 0;

  // Whether anyone but the recording itself uses the storage. `cached`: the
  // tensor on this storage that the recording holds, or null; its references
  // do not count.
  virtual bool IsLive(Storage storage, Tensor cached) const = 0;

  // Keeps a storage live while the result is there. Null: it is dead, or the
  // framework cannot.
  virtual std::shared_ptr<void> Hold(Storage storage) { return nullptr; }

  // Frees the memory of a live storage. From now on access to it, also through
  // views, is an error that says `text`.
  virtual void Invalidate(Storage storage, absl::string_view text) = 0;
};

// A weak reference, or none.
class WatchedStorage {
 public:
  WatchedStorage() = default;
  // `liveness` outlives this.
  WatchedStorage(Liveness& liveness, Storage storage)
      : liveness_(&liveness), storage_(storage) {
    if (storage_ != nullptr) liveness_->Watch(storage_);
  }
  WatchedStorage(WatchedStorage&& other) noexcept { swap(other); }
  WatchedStorage& operator=(WatchedStorage&& other) noexcept {
    swap(other);
    return *this;
  }
  ~WatchedStorage() {
    if (storage_ != nullptr) liveness_->Unwatch(storage_);
  }

  Storage get() const { return storage_; }
  bool IsLive(Tensor cached) const {
    return storage_ != nullptr && liveness_->IsLive(storage_, cached);
  }
  std::shared_ptr<void> Hold() const {
    return storage_ == nullptr ? nullptr : liveness_->Hold(storage_);
  }

 private:
  void swap(WatchedStorage& other) {
    std::swap(liveness_, other.liveness_);
    std::swap(storage_, other.storage_);
  }

  Liveness* liveness_ = nullptr;
  Storage storage_ = nullptr;
};

}  // namespace kiln::graph_tree

#endif  // KILN_RUNTIME_GRAPH_TREE_LIVENESS_H_
