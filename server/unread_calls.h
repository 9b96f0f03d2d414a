#ifndef KILN_SERVER_UNREAD_CALLS_H_
#define KILN_SERVER_UNREAD_CALLS_H_

#include <list>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"
#include "server/connection_watch.h"
#include "server/counters.h"

namespace kiln {

// The calls that send something, and whose callers may not want it. On a thread of its
// own it cancels those whose callers do not read what they are sent: they hold it, and
// their place. Thread-safe.
class UnreadCalls {
 public:
  // One whose write takes `write_timeout` is cancelled, and counted. `at_socket`, which
  // hears of calls that are reset there, and `counters` outlive this.
  UnreadCalls(absl::Duration write_timeout, ConnectionWatch& at_socket,
              Counters& counters);

  UnreadCalls(const UnreadCalls&) = delete;
  UnreadCalls& operator=(const UnreadCalls&) = delete;
  // No call is there any more: gRPC has ended them.
  ~UnreadCalls();

  // A call's place among them; a member of the call.
  class Write {
   public:
    explicit Write(grpc::CallbackServerContext& context) : context_(context) {}
    Write(const Write&) = delete;
    Write& operator=(const Write&) = delete;

   private:
    friend class UnreadCalls;
    grpc::CallbackServerContext& context_;
    // The rest is guarded by the lock of UnreadCalls.
    bool under_way_ = false;
    SteadyTime begun_;
    std::list<Write*>::iterator place_;
  };

  // Its call was ended by the caller. The network's door hears of that by itself.
  void HearReset(const Write& write) ABSL_LOCKS_EXCLUDED(mu_);
  void Begin(Write& write) ABSL_LOCKS_EXCLUDED(mu_);
  void End(Write& write) ABSL_LOCKS_EXCLUDED(mu_);
  // The same, when gRPC is done with the call: nobody uses its context when this
  // returns, and it may end.
  void Leave(Write& write) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until a write has taken too long, and takes it out; null: it is the end.
  Write* AwaitUnread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Remove(Write& write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const absl::Duration write_timeout_;
  ConnectionWatch& at_socket_;
  Counters& counters_;
  Mutex mu_;
  CondVar changed_;  // it is the end
  CondVar cancelled_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::list<Write*> writes_ ABSL_GUARDED_BY(mu_);  // the oldest first
  const Write* cancelling_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::thread thread_;  // last: it reads the members above
};

}  // namespace kiln

#endif  // KILN_SERVER_UNREAD_CALLS_H_
