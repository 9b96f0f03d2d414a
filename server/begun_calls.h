#ifndef KILN_SERVER_BEGUN_CALLS_H_
#define KILN_SERVER_BEGUN_CALLS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"

namespace kiln {

// Calls of connections from their headers to their end. gRPC reads a connection for as
// long as anything comes, on one thread, while others run handlers; each call that
// waits for one takes some 10 KiB, and thirty bytes make one. HTTP/2's limit of calls
// at once does not bind them, since a call that its peer has reset does not count any
// more. So calls are counted where their headers are read, and those beyond the limits
// are refused there, which leaves nothing of them. On a busy machine gRPC may end calls
// long after they were answered; a peer cannot help that, and is told apart from one
// that resets what it begins. Thread-safe.
class BegunCalls {
 public:
  struct Limits {
    // What HTTP/2 lets a connection have at once: always taken.
    int64_t at_once = 128;
    // Of a connection; those beyond `at_once` are answered or reset already, or will
    // be.
    int64_t of_a_connection = 384;
    // Beyond `at_once`, of all connections. One that has some gets no more than is
    // left for others.
    int64_t beyond = 8192;
  };
  // A call that never reaches its handler is forgotten after one to two of these: gRPC
  // refuses some by itself.
  static constexpr absl::Duration kForgotten = absl::Seconds(10);

  // `clock`, whose steady time counts, outlives this.
  BegunCalls(const Limits& limits, const Clock& clock)
      : limits_(limits), clock_(clock) {}

  // A number of no other connection; never 0.
  uint64_t NewConnection() ABSL_LOCKS_EXCLUDED(mu_);

  // A call has begun. False: it is to be refused.
  bool Begin(uint64_t connection) ABSL_LOCKS_EXCLUDED(mu_);

  // One that has a handler, until its end. The count outlives it. Move-only.
  class Heard {
   public:
    Heard() = default;  // of no connection that is counted
    Heard(Heard&& other) noexcept;
    Heard& operator=(Heard&&) = delete;
    ~Heard();
    // Calls of its connection were refused since one was heard last, and it had more
    // than `at_once` that nobody had answered.
    bool others_refused() const { return others_refused_; }
    // It is being answered: it counts until its end, but no longer against its peer.
    // Once, and not while another thread destroys this.
    void HearAnswer();

   private:
    friend class BegunCalls;
    Heard(BegunCalls* begun, uint64_t connection, bool others_refused)
        : begun_(begun),
          connection_(connection),
          others_refused_(others_refused) {}

    BegunCalls* begun_ = nullptr;
    uint64_t connection_ = 0;
    bool others_refused_ = false;
    bool answered_ = false;
  };
  Heard Hear(uint64_t connection) ABSL_LOCKS_EXCLUDED(mu_);

  // Connections with calls, and a few others.
  size_t known_connections() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Row {
    int64_t unheard = 0;
    int64_t begun = 0;     // in this period
    int64_t heard = 0;     // under way
    int64_t answered = 0;  // of these
    bool refused = false;

    int64_t calls() const { return unheard + heard; }
  };
  int64_t Beyond(const Row& row) const {
    return std::max<int64_t>(0, row.calls() - limits_.at_once);
  }
  void CountAnswer(uint64_t connection) ABSL_LOCKS_EXCLUDED(mu_);
  void End(uint64_t connection, bool answered) ABSL_LOCKS_EXCLUDED(mu_);
  // Forgets calls that never came, and connections without any.
  void EndPeriod(SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Limits limits_;
  const Clock& clock_;
  mutable Mutex mu_;
  uint64_t last_connection_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t beyond_ ABSL_GUARDED_BY(mu_) = 0;  // of all
  SteadyTime period_ ABSL_GUARDED_BY(mu_);   // its begin
  absl::flat_hash_map<uint64_t, Row> rows_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_BEGUN_CALLS_H_
