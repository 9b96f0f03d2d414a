#ifndef KILN_CACHE_FAR_REDIS_CLUSTER_H_
#define KILN_CACHE_FAR_REDIS_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cache/far/redis_node.h"
#include "cache/far/redis_slots.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"

namespace kiln {

// Redis as a whole: one server, or a cluster whose slots are learned from any of
// its nodes. Which of both is found out by asking. Thread-safe.
class RedisCluster {
 public:
  // Servers whose connections are kept open; the one that was not asked for
  // longest is closed first. Servers redirect to wherever they like, and must not
  // use up this process's descriptors. A cluster of more primaries works, and is
  // connected to more often.
  static constexpr size_t kMostKept = 64;

  // `seeds`: the server, or some nodes of the cluster; at least one. Connects to
  // none of them yet.
  RedisCluster(std::vector<HostPort> seeds, RedisOptions options);

  // Learns who serves what, and connects to each of the servers. One that is
  // silent costs the others nothing. The first error, if any.
  absl::Status Connect(SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mu_);

  // Runs commands that all bear on the slot of `key`, where that slot is served;
  // they may run twice. MOVED and ASK are followed; a server that is gone leads to
  // a new look at the slots and to another try, all before the deadline.
  //
  // Errors: those of the last try, as RedisNode::Run. A reply may be an error of
  // the server's.
  absl::StatusOr<std::vector<RespValue>> Run(
      absl::string_view key, absl::Span<const std::string> commands,
      SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Node = std::shared_ptr<RedisNode>;
  struct Kept {
    Node node;
    int64_t used = 0;  // the number of its last use
  };

  // Who serves the slot as far as is known; a seed where nothing is.
  absl::StatusOr<Node> NodeFor(int slot, SteadyTime deadline)
      ABSL_LOCKS_EXCLUDED(mu_);
  Node NodeAt(const HostPort& place) ABSL_LOCKS_EXCLUDED(mu_);
  // Asks the nodes in turn for the slots, but `except`. OK also when it was done
  // a moment ago.
  absl::Status LearnSlots(const Node& except, SteadyTime deadline)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Whether it was this caller's turn to ask.
  bool BeginLearning() ABSL_LOCKS_EXCLUDED(mu_);
  void Take(SlotMap slots) ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<HostPort> Places() const ABSL_LOCKS_EXCLUDED(mu_);

  const std::vector<HostPort> seeds_;
  const RedisOptions options_;
  HostResolver resolver_;
  mutable Mutex mu_;
  // Whether any server has said who serves what. A lone server serves all slots.
  bool known_ ABSL_GUARDED_BY(mu_) = false;
  SteadyTime learned_ ABSL_GUARDED_BY(mu_);  // when it was asked last
  SlotMap slots_ ABSL_GUARDED_BY(mu_);
  int64_t uses_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<HostPort, Kept> nodes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_REDIS_CLUSTER_H_
