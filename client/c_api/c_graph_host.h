#ifndef KILN_CLIENT_C_API_C_GRAPH_HOST_H_
#define KILN_CLIENT_C_API_C_GRAPH_HOST_H_

#include <memory>
#include <string>
#include <vector>

#include "client/c_api/kiln_graphs.h"
#include "runtime/graph_tree/liveness.h"
#include "runtime/graph_tree/pool.h"
#include "runtime/graph_tree/recorder.h"

namespace kiln {

// Implements the tree's three interfaces with the functions of a KilnGraphHost.
class CGraphHost : public graph_tree::Pool,
                   public graph_tree::Liveness,
                   public graph_tree::Recorder {
 public:
  explicit CGraphHost(const KilnGraphHost& host) : host_(host) {}

  absl::StatusOr<std::unique_ptr<graph_tree::PoolState>> Checkpoint() override;
  absl::Status Restore(const graph_tree::PoolState& state,
                       absl::Span<const graph_tree::Storage> live) override;
  absl::Status Free(const void* address) override;
  bool TakeAnother() override;
  absl::StatusOr<std::vector<const void*>> AllocatedBlocks() override;
  std::string OriginOf(absl::Span<const void* const> blocks) override;

  void Watch(graph_tree::Storage storage) override;
  void Unwatch(graph_tree::Storage storage) override;
  bool IsLive(graph_tree::Storage storage,
              graph_tree::Tensor cached) const override;
  void Invalidate(graph_tree::Storage storage, absl::string_view text) override;

  absl::Status ChangeThread() override;
  absl::Status KeepGradients(
      graph_tree::Call& call,
      absl::Span<const graph_tree::Storage> storages) override;
  absl::Status RunPlainly(const graph_tree::Function& function,
                          graph_tree::Call& call) override;
  absl::StatusOr<std::vector<graph_tree::Output>> WarmUp(
      const graph_tree::Function& function, graph_tree::Call& call) override;
  absl::StatusOr<std::unique_ptr<graph_tree::Recording>> Record(
      const graph_tree::Function& function, graph_tree::Call& call,
      absl::Span<const graph_tree::InputUse> uses) override;
  absl::Status FindStorages(graph_tree::Call& call) override;
  void DropInput(graph_tree::Call& call, int input) override;

  const KilnGraphHost& host() const { return host_; }

 private:
  const KilnGraphHost host_;
};

}  // namespace kiln

#endif  // KILN_CLIENT_C_API_C_GRAPH_HOST_H_
