#include "server/known_lookups.h"

#include <utility>

namespace kiln {
namespace {

// In memory, without the build, which all share.
size_t BytesOf(const LookupAsk& ask) {
  return sizeof(ask) - sizeof(ask.target) + ask.target.SpaceUsedLong() +
         ask.values.capacity() * sizeof(int64_t) +
         ask.cache_namespace.capacity();
}

}  // namespace

std::shared_ptr<const LookupAsk> KnownLookups::Find(
    absl::string_view request,
    const std::shared_ptr<const BuildIdentity>& build) {
  if (request.size() > kMostBytes) return nullptr;
  std::shared_ptr<const LookupAsk> known;
  bool is_early = false;
  {
    MutexLock lock(&mu_);
    auto found = late_.find(request);
    is_early = found == late_.end();
    if (is_early) {
      found = early_.find(request);
      if (found == early_.end()) return nullptr;
    }
    known = found->second;
  }
  if (known->build != build) return nullptr;
  if (is_early) Keep(request, known);
  return known;
}

void KnownLookups::Keep(absl::string_view request,
                        std::shared_ptr<const LookupAsk> ask) {
  if (request.size() > kMostBytes || BytesOf(*ask) > kMostAskBytes) return;
  Rows gone;  // freed after the lock
  MutexLock lock(&mu_);
  late_.insert_or_assign(std::string(request), std::move(ask));
  if (late_.size() < kMost / 2) return;
  gone = std::exchange(early_, std::exchange(late_, {}));
}

size_t KnownLookups::known() const {
  MutexLock lock(&mu_);
  return late_.size() + early_.size();
}

}  // namespace kiln
