#include "server/fair_share.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {

FairShare::Part::Part(Part&& other) noexcept
    : share_(std::exchange(other.share_, nullptr)),
      holder_(std::move(other.holder_)),
      bytes_(other.bytes_) {}

FairShare::Part& FairShare::Part::operator=(Part&& other) noexcept {
  if (this == &other) return *this;
  Release();
  share_ = std::exchange(other.share_, nullptr);
  holder_ = std::move(other.holder_);
  bytes_ = other.bytes_;
  return *this;
}

void FairShare::Part::Release() {
  if (share_ != nullptr)
    std::exchange(share_, nullptr)->GiveBack(holder_, bytes_);
}

absl::StatusOr<FairShare::Part> FairShare::Take(absl::string_view holder,
                                                int64_t bytes) {
  MutexLock lock(&mu_);
  const Amount left = {all_.places - held_.places, all_.bytes - held_.bytes};
  const auto own = holders_.find(holder);
  const Amount has = own == holders_.end() ? Amount() : own->second;
  if (!Fits(has.places, 1, left.places) ||
      (bytes > 0 && !Fits(has.bytes, bytes, left.bytes))) {
    return MakeError(
        ErrorReason::kQueueFull,
        absl::StrCat(what_, " ", holder, ": found ", has.places, " with ",
                     has.bytes, " bytes, and ", left.places, " places and ",
                     left.bytes, " bytes left for all; try again in a while"));
  }
  Amount& now = holders_[holder];
  ++now.places;
  now.bytes += bytes;
  ++held_.places;
  held_.bytes += bytes;
  return Part(this, std::string(holder), bytes);
}

void FairShare::GiveBack(const std::string& holder, int64_t bytes) {
  MutexLock lock(&mu_);
  const auto own = holders_.find(holder);
  own->second.bytes -= bytes;
  if (--own->second.places == 0) holders_.erase(own);
  --held_.places;
  held_.bytes -= bytes;
}

}  // namespace kiln
