#ifndef KILN_CACHE_KEY_CLAIMS_H_
#define KILN_CACHE_KEY_CLAIMS_H_

#include <set>

#include "absl/base/thread_annotations.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"

namespace kiln {

// One writer a key, without a lock over what it writes: who has claimed a key
// may read, change and write what lies under it, and those who want the same
// key wait. Others go on.
//
// Stores that stand on one another have claims of their own, taken from the top
// down; nobody holds two keys of one KeyClaims. So nobody waits for himself.
//
// Thread-safe.
class KeyClaims {
 public:
  // Waits until nobody else has the key; given back at the end of the scope.
  class Claim {
   public:
    Claim(KeyClaims& claims, const Digest& key) : claims_(claims), key_(key) {
      claims_.Take(key_);
    }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim() { claims_.GiveBack(key_); }

   private:
    KeyClaims& claims_;
    const Digest key_;
  };

 private:
  void Take(const Digest& key) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    while (!claimed_.insert(key).second) changed_.Wait(&mu_);
  }
  void GiveBack(const Digest& key) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    claimed_.erase(key);
    changed_.SignalAll();
  }

  Mutex mu_;
  CondVar changed_;
  std::set<Digest> claimed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CACHE_KEY_CLAIMS_H_
