#ifndef KILN_SERVER_CONNECTION_WATCH_H_
#define KILN_SERVER_CONNECTION_WATCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"
#include "server/begun_calls.h"
#include "server/peer_rates.h"

namespace kiln {

// What a connection may send without a call. Bytes are those that gRPC has read of it
// since its last call, or since it was accepted. Where an admitted call is under way
// nothing is counted.
struct QuietLimits {
  // Of a connection that has made no call, or whose last one was a stranger's. A TLS
  // handshake, the headers of 128 calls and the 64 KiB of messages that HTTP/2 lets a
  // client send unasked fit into it.
  int64_t bytes = int64_t{256} << 10;
  // Of one whose last call was admitted: of a message that was refused half way more
  // is on its way.
  int64_t caller_bytes = int64_t{4} << 20;
  // Of all those without an admitted call together. Beyond it the address that holds
  // most of them loses its largest connection, and so on.
  int64_t all_bytes = int64_t{32} << 20;
  // More than `begun_bytes` (a handshake's) and no call for `begun_time`: headers that
  // come slowly and do not end.
  int64_t begun_bytes = int64_t{16} << 10;
  absl::Duration begun_time = absl::Seconds(10);
  // No call for so long, whatever was sent. gRPC ends idle connections itself, but for
  // those with a call whose headers have only begun.
  absl::Duration quiet_time = absl::Minutes(16);
  // Calls that are not answered, those included whose peer has reset them and that gRPC
  // has not ended yet. HTTP/2 lets a peer have 128 that it has not reset.
  int calls = 512;
  // How often a connection may reset a call: as many as it has at once end together
  // when their deadline passes.
  Rate resets = {.at_once = 1024, .a_second = 64};
  // The same of all connections of a holder: as many as may wait for a compile.
  Rate holder_resets = {.at_once = 32768, .a_second = 256};
  // How long a holder may not connect after one of its connections was ended for its
  // resets.
  absl::Duration bar = absl::Minutes(1);
};

// Watches the connections of a door that gRPC was given, and closes those that send
// and do not call. gRPC 1.51 keeps what it parses of headers that do not end
// (CONTINUATION frames without END_HEADERS, CVE-2023-33953): some fourteen times what
// was sent, outside of every quota. It tells nobody of that, nor of a TLS handshake
// that breaks off: then it closes the descriptor. But it tells of calls, and the kernel
// counts a connection's bytes. Nor has it a bound on calls that are begun and reset at
// once (CVE-2023-44487): a reset call counts no more among the 128, and all that it took
// stays until gRPC's threads come to it. Thread-safe.
class ConnectionWatch {
 private:
  struct Connection;

 public:
  // Told of each connection that was closed before its first call, or by the watch.
  // `peer`: who was at the other end, as gRPC calls it.
  using Refused =
      std::function<void(const std::string& peer, absl::string_view why)>;

  // `refused` is called by whoever finds out, without a lock. `clock`, whose steady
  // time counts for resets, outlives this.
  ConnectionWatch(const QuietLimits& limits, const Clock& clock,
                  Refused refused)
      : limits_(limits),
        clock_(clock),
        refused_(std::move(refused)),
        holder_resets_(limits.holder_resets, clock) {}

  static constexpr size_t kMostBarred = 65536;

  // A call, under way until its end. The watch outlives it. Move-only.
  class WatchedCall {
   public:
    WatchedCall() = default;  // of no connection that is watched
    explicit WatchedCall(BegunCalls::Heard begun) : begun_(std::move(begun)) {}
    WatchedCall(WatchedCall&& other) noexcept;
    WatchedCall& operator=(WatchedCall&&) = delete;
    ~WatchedCall();

    // Its peer has ended it.
    void HearReset();
    // It is being answered: what gRPC still does with it is not the peer's doing. Once.
    void HearAnswer();

   private:
    friend class ConnectionWatch;
    WatchedCall(ConnectionWatch* watch, std::shared_ptr<Connection> connection,
                bool admitted, BegunCalls::Heard begun)
        : begun_(std::move(begun)),
          watch_(watch),
          connection_(std::move(connection)),
          admitted_(admitted) {}

    BegunCalls::Heard begun_;
    ConnectionWatch* watch_ = nullptr;
    std::shared_ptr<Connection> connection_;
    bool admitted_ = false;
    bool answered_ = false;
  };

  // Whether `holder` has not been barred for its resets.
  bool MayConnect(const std::string& holder) const ABSL_LOCKS_EXCLUDED(mu_);

  // The socket `fd`, before gRPC has it. `peer`: as gRPC calls it, of no other
  // connection as long as this one is open. `holder`: whose share it counts in
  // (open_connections.h); empty: nobody's, who is never barred.
  void Add(int fd, const std::string& peer, const std::string& holder)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whether the connection to `peer` was ended, and gRPC has not found that yet: who
  // calls is not worth asking.
  bool IsEnded(const std::string& peer) const ABSL_LOCKS_EXCLUDED(mu_);
  // The connection to `peer` began more calls than it may: it is ended.
  void HearFlood(const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);
  // A call came over the connection to `peer`: one that anybody may make, or of
  // somebody who may not. `begun`, where calls are counted from their headers on, is
  // given up at its end.
  WatchedCall HearStranger(const std::string& peer,
                           BegunCalls::Heard begun = {})
      ABSL_LOCKS_EXCLUDED(mu_);
  // One of somebody who may.
  WatchedCall HearCaller(const std::string& peer, BegunCalls::Heard begun = {})
      ABSL_LOCKS_EXCLUDED(mu_);

  // The peer has ended a call, of which nothing else was said to this. For the Unix
  // socket, whose bytes nobody counts.
  void HearReset(const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);

  // Looks at all of them. For whoever has a clock, many times a second: what a peer
  // can send between two sweeps comes on top of the limits. On one thread at a time.
  void Sweep(SteadyTime now) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Connection {
    int fd = -1;
    uint64_t cookie = 0;
    std::string peer;
    std::string holder;
    // The rest is guarded by the watch's lock.
    int64_t counted_from = 0;  // bytes that were read before
    SteadyTime since;          // the last call, or none
    int calls = 0;             // admitted, under way
    int all_calls = 0;         // under way, and not answered
    std::optional<RateLeft> resets;
    bool ended = false;  // for its resets
    bool heard = false;
    bool is_callers = false;  // the last call was admitted
    bool call_ended = false;  // an admitted one, since the last sweep
  };
  // What a sweep saw of a connection.
  struct Look {
    std::shared_ptr<Connection> connection;
    int64_t read = 0;  // bytes
    bool gone = false;
    int64_t quiet_bytes = 0;
    absl::string_view fault = {};
  };

  // Those to look at; callers' too once in a while.
  std::vector<Look> Due(bool callers_too) ABSL_LOCKS_EXCLUDED(mu_);
  // Finds faults, and forgets the connections that have one or are gone.
  void Judge(std::vector<Look>& looks, SteadyTime now) ABSL_LOCKS_EXCLUDED(mu_);
  absl::string_view FaultOf(Look& look, SteadyTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void KeepTotal(std::vector<Look>& looks) const;
  // One more is under way; ends the connection when those are too many.
  WatchedCall Begin(const std::shared_ptr<Connection>& connection,
                    bool admitted, BegunCalls::Heard begun)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Counts a reset, and ends the connection when there were too many.
  void CountReset(Connection& connection) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the connection, once, and bars its holder.
  void End(Connection& connection) ABSL_LOCKS_EXCLUDED(mu_);
  void Bar(const std::string& holder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget(const Connection& connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const QuietLimits limits_;
  const Clock& clock_;
  const Refused refused_;
  PeerRates holder_resets_;
  int sweeps_ = 0;
  mutable Mutex mu_;
  absl::flat_hash_map<std::string, std::shared_ptr<Connection>> by_peer_
      ABSL_GUARDED_BY(mu_);
  // Holders, until when.
  absl::flat_hash_map<std::string, SteadyTime> barred_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_CONNECTION_WATCH_H_
