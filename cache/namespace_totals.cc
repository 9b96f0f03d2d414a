#include "cache/namespace_totals.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// OK where a budget of 0 is none.
absl::Status CheckPins(int64_t pinned, int64_t budget, absl::string_view unit,
                       const std::string& whose) {
  if (budget <= 0 || pinned <= budget / 2) return absl::OkStatus();
  return MakeError(
      ErrorReason::kTooLarge,
      absl::StrCat("pin: ", pinned, " ", unit, " of ", whose,
                   " would be pinned, at most ", budget / 2,
                   " may, half of the budget; unpin others first"));
}

}  // namespace

uint32_t NamespaceTotals::Enter(const std::string& cache_namespace,
                                int64_t bytes) {
  MutexLock lock(&mu_);
  uint32_t number = 0;
  if (const auto found = numbers_.find(cache_namespace);
      found != numbers_.end()) {
    number = found->second;
  } else if (cache_namespace.empty()) {
    number = 0;
  } else if (!free_.empty()) {
    number = free_.back();
    free_.pop_back();
  } else if (held_.size() < kNumbers) {
    number = static_cast<uint32_t>(held_.size());
    held_.emplace_back();
  }
  Held& held = held_[number];
  if (number != 0 && held.entries == 0) {
    held.name = cache_namespace;
    numbers_.emplace(cache_namespace, number);
  }
  ++held.entries;
  held.bytes += bytes;
  return number;
}

void NamespaceTotals::Leave(uint32_t number, int64_t bytes) {
  MutexLock lock(&mu_);
  Held& held = held_[number];
  held.bytes -= bytes;
  if (--held.entries > 0 || number == 0) return;
  numbers_.erase(held.name);
  held = Held();
  free_.push_back(number);
}

absl::Status NamespaceTotals::Pin(uint32_t number, int64_t bytes) {
  MutexLock lock(&mu_);
  Held& held = held_[number];
  RETURN_IF_ERROR(CheckPins(held.pinned_bytes + bytes,
                            budgets_.BytesOf(held.name), "bytes",
                            absl::StrCat("namespace ", held.name)));
  RETURN_IF_ERROR(
      CheckPins(pinned_bytes_ + bytes, budgets_.bytes, "bytes", "the cache"));
  RETURN_IF_ERROR(
      CheckPins(pinned_ + 1, budgets_.entries, "entries", "the cache"));
  held.pinned_bytes += bytes;
  pinned_bytes_ += bytes;
  ++pinned_;
  return absl::OkStatus();
}

void NamespaceTotals::KeepPinned(uint32_t number, int64_t bytes) {
  MutexLock lock(&mu_);
  held_[number].pinned_bytes += bytes;
  pinned_bytes_ += bytes;
  ++pinned_;
}

void NamespaceTotals::Unpin(uint32_t number, int64_t bytes) {
  MutexLock lock(&mu_);
  held_[number].pinned_bytes -= bytes;
  pinned_bytes_ -= bytes;
  --pinned_;
}

std::optional<uint32_t> NamespaceTotals::NumberOf(
    const std::string& cache_namespace) const {
  if (cache_namespace.empty()) return 0;
  MutexLock lock(&mu_);
  const auto found = numbers_.find(cache_namespace);
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

std::map<std::string, int64_t> NamespaceTotals::Bytes() const {
  MutexLock lock(&mu_);
  std::map<std::string, int64_t> bytes;
  for (const Held& held : held_)
    if (held.entries > 0) bytes[held.name] = held.bytes;
  return bytes;
}

int64_t NamespaceTotals::pinned() const {
  MutexLock lock(&mu_);
  return pinned_;
}

}  // namespace kiln
