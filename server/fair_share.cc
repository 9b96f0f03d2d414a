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

absl::Status FairShare::Part::Grow(int64_t bytes) {
  RETURN_IF_ERROR(share_->AddBytes(holder_, bytes));
  bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status FairShare::Refusal(absl::string_view holder,
                                const Amount& has) const {
  const Amount left = Left();
  return MakeError(
      ErrorReason::kQueueFull,
      absl::StrCat(what_, " ", holder, ": found ", has.places, " with ",
                   has.bytes, " bytes, and ", left.places, " places and ",
                   left.bytes, " bytes left for all; try again in a while"));
}

absl::Status FairShare::AddBytes(const std::string& holder, int64_t bytes) {
  MutexLock lock(&mu_);
  Amount& has = holders_[holder];
  if (!Fits(has.bytes, bytes, Left().bytes)) return Refusal(holder, has);
  has.bytes += bytes;
  held_.bytes += bytes;
  return absl::OkStatus();
}

absl::StatusOr<FairShare::Part> FairShare::Take(absl::string_view holder,
                                                int64_t bytes) {
  MutexLock lock(&mu_);
  const Amount left = Left();
  const auto own = holders_.find(holder);
  const Amount has = own == holders_.end() ? Amount() : own->second;
  if (!Fits(has.places, 1, left.places) ||
      (bytes > 0 && !Fits(has.bytes, bytes, left.bytes))) {
    return Refusal(holder, has);
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
