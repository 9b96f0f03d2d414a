#include "server/hit_buffers.h"

#include <algorithm>

namespace kiln {

ReadyHit HitBuffers::Share(const CacheAnswer& hit) {
  Blob own =
      std::make_shared<const std::string>(hit.artifact.SerializeAsString());
  Blob others;
  {
    MutexLock lock(&mu_);
    others = buffers_[hit.entry_id].lock();
  }
  // Compared without the lock. An entry may be stored anew, by another signer say.
  if (others != nullptr && *others == *own) return {others, *others};
  MutexLock lock(&mu_);
  buffers_[hit.entry_id] = own;
  if (buffers_.size() >= next_sweep_) {
    absl::erase_if(buffers_,
                   [](const auto& row) { return row.second.expired(); });
    next_sweep_ = std::max<size_t>(64, 2 * buffers_.size());
  }
  return {own, *own};
}

size_t HitBuffers::known() const {
  MutexLock lock(&mu_);
  return buffers_.size();
}

}  // namespace kiln
