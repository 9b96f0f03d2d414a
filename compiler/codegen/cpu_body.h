#ifndef KILN_COMPILER_CODEGEN_CPU_BODY_H_
#define KILN_COMPILER_CODEGEN_CPU_BODY_H_

// Writes the statements of a CPU kernel: values, loads and stores, each for one point or
// for K_LANES neighbours along the vector axis.
//
// In the text, `i<v>` is the index of the first neighbour, and `m` the number of
// neighbours, from 1 to K_LANES. Lanes from `m` on may hold any value.

#include "absl/status/status.h"
#include "compiler/codegen/kernel_body.h"

namespace kiln {

// The ending of the prelude's functions that load and store lanes of a dtype.
inline absl::string_view MemoryEnding(DType dtype) {
  return IsHalf(dtype) ? "u16" : TypeEnding(dtype);
}

class CpuBody : public KernelBody {
 public:
  using KernelBody::KernelBody;

  static constexpr uint32_t kNoAxis = ~0u;
  uint32_t vector_axis = kNoAxis;

  bool IsLanes(AxisSet axes) const {
    return vector_axis != kNoAxis && (axes & AxisBit(vector_axis)) != 0;
  }
  bool IsLanes(ScalarId id) const {
    return lanes_override_[id] == 0 ? IsLanes(facts.axes[id])
                                    : lanes_override_[id] == 1;
  }

  void Start() { lanes_override_.assign(nest.body.size(), 0); }
  // Overrides whether a result is a vector of lanes, which its axes decide otherwise.
  void SetLanes(ScalarId id, bool lanes) {
    lanes_override_[id] = lanes ? 1 : 2;
  }

  absl::Status Store(uint32_t store);
  // Write the members of a list that change along the vector axis (`lanes`), or the
  // others.
  absl::Status Nodes(const std::vector<ScalarId>& nodes, bool lanes);
  absl::Status Stores(const std::vector<uint32_t>& stores, bool lanes);
  // Whether a member does not change along the vector axis.
  bool AnyStill(const std::vector<uint32_t>& stores) const;

  // From now on assumes that `masks` hold in all lanes. Empty: assumes nothing.
  void Assume(const std::vector<ScalarId>& masks);
  // An expression that is true if all of `masks` hold in lane `at`.
  std::string HoldAt(const std::vector<ScalarId>& masks,
                     const std::string& at) const;

  // "for (i<v> = from; < to) { m = ...".
  void OpenLanes(const std::string& from, const std::string& to);

  // The value, broadcast to all lanes if `lanes` is set.
  std::string Operand(ScalarId id, bool lanes) const;
  std::string Extent(uint32_t axis) const { return Index(facts.extents[axis]); }

 private:
  Dialect DialectOf(ScalarId id) const override {
    return IsLanes(id) ? Dialect::kCpuLanes : Dialect::kCpu;
  }
  std::string Argument(ScalarId id, ScalarId user) const override {
    return Operand(id, IsLanes(user));
  }
  std::string SqrtText(DType dtype, const std::string& of) const override;
  absl::Status Load(ScalarId id) override;
  absl::Status IndexValue(ScalarId id) override;
  void IndexCheck(ScalarId id) override;
  void Define(ScalarId id, const std::string& value) override;
  void GatherLanes(ScalarId id);
  void LoadApart(ScalarId id);
  int64_t StepOf(const SymExpr& offset) const;
  std::string PerLane(const SymExpr& e) const;
  std::string OneLane(ScalarId id) const;  // the value of lane `l`
  void UpdateCell(uint32_t store, bool lanes, const std::string& offset);

  // Whether the load has no mask, or one that is assumed to hold.
  bool IsPlain(const ScalarNode& load) const;
  std::string MaskAt(ScalarId id, const std::string& at) const;

  std::vector<uint8_t> lanes_override_;
  std::vector<ScalarId> assumed_;  // masks
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_BODY_H_
