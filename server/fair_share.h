#ifndef KILN_SERVER_FAIR_SHARE_H_
#define KILN_SERVER_FAIR_SHARE_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"

namespace kiln {

// Places and bytes that many take parts of: callers, namespaces. A holder gets
// more only while it holds less than `ratio` times what is left for others. So with
// the ratio 1 one holder alone gets half of all, two get a third each, and whoever
// comes next finds room, however much a few ask for. Thread-safe.
class FairShare {
 public:
  struct Amount {
    int64_t places = 0;
    int64_t bytes = 0;
  };

  // `what` is held, for messages: "compile calls of caller".
  FairShare(absl::string_view what, const Amount& all, int64_t ratio = 1)
      : what_(what), all_(all), ratio_(ratio) {}

  FairShare(const FairShare&) = delete;
  FairShare& operator=(const FairShare&) = delete;

  // What is held; its end gives it back. The share outlives it. Move-only.
  class Part {
   public:
    Part() = default;  // of nothing
    Part(Part&& other) noexcept;
    Part& operator=(Part&& other) noexcept;
    ~Part() { Release(); }
    // Before its end.
    void Release();
    // So many bytes more, of the same place. Errors as Take's.
    absl::Status Grow(int64_t bytes);

   private:
    friend class FairShare;
    Part(FairShare* share, std::string holder, int64_t bytes)
        : share_(share), holder_(std::move(holder)), bytes_(bytes) {}

    FairShare* share_ = nullptr;
    std::string holder_;
    int64_t bytes_ = 0;
  };

  // One place, and so many bytes.
  //
  // RESOURCE_EXHAUSTED QUEUE_FULL, saying what the holder has and what is left.
  absl::StatusOr<Part> Take(absl::string_view holder, int64_t bytes = 0)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Status AddBytes(const std::string& holder, int64_t bytes)
      ABSL_LOCKS_EXCLUDED(mu_);
  void GiveBack(const std::string& holder, int64_t bytes)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Refusal(absl::string_view holder, const Amount& has) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Amount Left() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return {all_.places - held_.places, all_.bytes - held_.bytes};
  }
  // Whether one more of `size` fits, of what a holder has `held` of.
  bool Fits(int64_t held, int64_t size, int64_t left) const {
    return size <= left && (held == 0 || held < ratio_ * left);
  }

  const std::string what_;
  const Amount all_;
  const int64_t ratio_;
  Mutex mu_;
  Amount held_ ABSL_GUARDED_BY(mu_);  // by all
  absl::flat_hash_map<std::string, Amount> holders_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_FAIR_SHARE_H_
