#ifndef KILN_COMPILER_CODEGEN_CUDA_BODY_H_
#define KILN_COMPILER_CODEGEN_CUDA_BODY_H_

// Writes the statements of a CUDA kernel for one group of neighbours along the vector
// axis: first the values that all neighbours share, then wide loads and vectors of random
// numbers, then a loop over the neighbours, then wide stores.
//
// In the text, `i<v>` is the first neighbour's index and `e` counts the neighbours.
// Where a group may be partial, only those from `lo` up to, not including, `hi` exist.

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/codegen/kernel_body.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

class CudaBody : public KernelBody {
 public:
  CudaBody(const LoopNest& nest, const NestFacts& facts,
           const std::vector<Buffer>& buffers, const ShapeEnv& shapes)
      : KernelBody(nest, facts, buffers, shapes) {
    SetVectors({});
  }

  // The text is a device function for a part of a combined kernel: `block` counts the
  // part's own blocks, and there are as many as it needs.
  bool is_part = false;

  // The grid covers all points, so that no block takes a second turn.
  bool one_turn = false;

  // Divisions by constants are written with a branch (CudaRows.branch).
  bool divides_by_branch = false;

  // The most values of a group that is written twice (CudaPoints.whole).
  size_t most_written_twice = 0;

  // Loads may access a whole group of which some neighbours do not exist, if all of the
  // group lies between elements that the load reads elsewhere.
  bool loads_past_ends = false;

  // Whether the target adds vectors atomically.
  bool vector_atomics = false;

  Vectors vectors;
  void SetVectors(const Vectors& of);

  // Whether a value differs between the neighbours of a group.
  bool IsLanes(AxisSet axes) const {
    return vectors.width > 1 && (axes & AxisBit(vectors.axis)) != 0;
  }
  bool IsLanes(ScalarId id) const { return lanes_[id]; }

  // The number of points of an axis; for the vector axis, the number of groups.
  SymExpr Steps(uint32_t axis) const {
    return axis == vectors.axis ? GroupsAlong(vectors, facts)
                                : facts.extents[axis];
  }

  // Places for the caller's statements in a group. A group of one element has only
  // kNeighbour.
  enum class Place : uint8_t {
    kBefore,     // once, after the values that all neighbours share
    kNeighbour,  // at each neighbour, after its values and before its stores
    kBehind,     // once, after the loop over neighbours
  };
  // What one group computes and writes.
  struct Group {
    const std::vector<ScalarId>& nodes;
    const std::vector<uint32_t>& stores;
    // Writes the caller's statements at each place.
    absl::FunctionRef<absl::Status(Place)> then;
    std::string store_if;  // a condition for stores; empty: always
    // Whether `then` may also run for neighbours that do not exist.
    bool then_outside = false;
  };
  absl::Status WriteGroup(const Group& group);
  // Writes a store outside of any group.
  absl::Status StoreOne(uint32_t store) { return Store(store); }
  // Writes the store of neighbour `e` alone.
  absl::Status StoreNeighbour(uint32_t store);

  // The factors of `product` if it may be fused with the sum `user`, so that the result
  // is rounded once; otherwise empty.
  std::vector<ScalarId> FusedFactors(ScalarId product, ScalarId user) const;

  // --- Loads ahead of their use. Each group of a load has its own k_pack.

  // "k_pack<float, 4>".
  std::string PackType(ScalarId load) const;
  // Loads this thread's group into `pack`.
  void LoadAhead(ScalarId load, const std::string& pack);
  // Copies this thread's group to `pack` in shared memory; asynchronously if it is a wide
  // access.
  void CopyAhead(ScalarId load, const std::string& pack);
  // From now on the load's value is read from `pack`.
  void ReadFrom(ScalarId load, const std::string& pack);
  // From now on the load's value is `cell`, an expression with the neighbour's number.
  void ReadCell(ScalarId load, const std::string& cell) {
    ahead_[load] = true;
    SetText(load, cell);
  }
  // From now on the value is loaded where it is used.
  void ForgetAhead(ScalarId load) { ahead_[load] = false; }

 private:
  Dialect DialectOf(ScalarId id) const override {
    return facts.approximate[id] ? Dialect::kCudaApproximate : Dialect::kCuda;
  }
  std::string FusedText(ScalarId id) const override;
  // A comparison of indices in the kernel's index type; empty for other nodes.
  std::string IndexComparison(ScalarId id) const;
  std::string Argument(ScalarId id, ScalarId) const override {
    return Text(id);
  }
  std::string SqrtText(DType dtype, const std::string& of) const override;
  absl::Status Load(ScalarId id) override;
  absl::Status IndexValue(ScalarId id) override;
  void IndexCheck(ScalarId id) override;
  void Define(ScalarId id, const std::string& value) override;
  bool IsWideRandom(const ScalarNode& node) const;
  bool AddsWide(uint32_t index) const;
  bool IsUniform(ScalarId id) const;
  std::string At(
      const SymExpr& e) const;  // the index for neighbour `e` of the loop
  // "if (...) " with the condition that the group or, with `lanes`, the neighbour exists.
  std::string InsideText(bool lanes) const;
  absl::Status Store(uint32_t index);
  absl::Status Shared(const Group& group);
  bool MayComputeOutside(const Group& group, const std::vector<bool>& done,
                         const std::vector<std::string>& wide_store) const;
  std::vector<bool> WideValues(const Group& group);
  std::vector<std::string> WideStoreNames(const Group& group);
  absl::Status Neighbours(const Group& group, const std::vector<bool>& done,
                          const std::vector<std::string>& wide_store,
                          bool guarded);
  absl::Status Neighbour(const Group& group, const std::vector<bool>& done,
                         const std::vector<std::string>& wide_store);
  void WideStores(const Group& group,
                  const std::vector<std::string>& wide_store);
  std::string WideLoadText(ScalarId id) const;
  std::string WithinText(ScalarId load) const;
  void WideLoad(ScalarId id);
  void WideRandom(ScalarId id);
  // The float whose rounding a store of halves has as its value, if the wide store can do
  // that rounding; otherwise the stored value itself.
  ScalarId StoredFloat(uint32_t store) const;

  std::vector<bool> lanes_;
  std::vector<bool> ahead_;
  bool in_loop_ = false;
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_BODY_H_
